"""Says "or null" in the one form that generators of clients understand: a type and null.

The library that describes our types says it as ``anyOf`` with a part that is null only; openapi-generator's Python
breaks off at that. Both mean the same (JSON Schema 2020-12, 6.1.1). Of an object it makes one that cannot be null while
it has to be there; so an object that can be null is described as one that may be left out, too.
"""

from __future__ import annotations

from typing import Any, Final

Json = dict[str, Any]

_NULL: Final = {"type": "null"}


def typed(schema: Any) -> Any:
    """The same document with every ``anyOf`` of one plain schema and null as one schema that takes null, too."""
    if isinstance(schema, list):
        return [typed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = _as_one({name: typed(part) for name, part in schema.items()})
    if isinstance(found.get("properties"), dict) and isinstance(found.get("required"), list):
        found["required"] = [
            name for name in found["required"] if not _is_object_or_null(found["properties"].get(name))
        ]
    return found


def _as_one(schema: Json) -> Json:
    alternatives = schema.get("anyOf")
    if not isinstance(alternatives, list) or _NULL not in alternatives:
        return schema
    plain = [part for part in alternatives if part != _NULL]
    if len(plain) != 1 or not (isinstance(plain[0].get("type"), str) or "enum" in plain[0]):
        return schema
    made: Json = {name: part for name, part in schema.items() if name != "anyOf"} | plain[0]
    if "type" in made:
        made["type"] = [made["type"], "null"]
    if "enum" in made:
        made["enum"] = [*made["enum"], None]
    return made


def _is_object_or_null(schema: object) -> bool:
    return isinstance(schema, dict) and schema.get("type") == ["object", "null"]
