"""Payloads of any operation, drawn from what its fields declare: nothing is written here when an operation comes."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from schemas.fields.validation import Field
from schemas.operation import Operation
from tests.contracts import golden

#: texts that a schema allows and that end up in Postgres, Avro and JSON
_TEXT: Final = st.characters(exclude_categories=("Cs", "Cc"))


def payloads(operation: Operation) -> st.SearchStrategy[dict[str, Any]]:
    """Payloads that the operation takes, with and without what may be left out."""
    required = {name: _values(operation, name, f) for name, f in operation.payload.items() if f.is_required}
    optional = {name: _values(operation, name, f) for name, f in operation.payload.items() if not f.is_required}
    return st.fixed_dictionaries(required, optional=optional)


def _values(operation: Operation, name: str, field: Field) -> st.SearchStrategy[Any]:
    """Values of one field. A type says more by its check than JSON Schema can: what it refuses is not drawn."""
    drawn = _of_schema(field.type.json)
    sample = golden.RECORDS.get(operation.record, {}).get("payload", {}).get(name)
    if field.said is not None and field.said(sample) is not None:
        sample = None  # the form in which it travels: no caller may say it so
    if drawn is None or sample is not None:
        drawn = st.just(sample) if drawn is None else st.just(sample) | drawn
    taken = drawn.filter(lambda value: field.type.check(value) is None)
    return taken | st.none() if field.nullable else taken


def _of_schema(schema: dict[str, Any]) -> st.SearchStrategy[Any] | None:
    """None for what only the golden sample shows: lists of objects, objects with fields, texts in a form."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("type") == "integer":
        return st.integers(schema["minimum"], schema["maximum"])
    if schema.get("type") == "boolean":
        return st.booleans()
    if schema.get("type") == "string" and "format" not in schema:
        return _texts(schema)
    if "additionalProperties" in schema and "properties" not in schema:
        names = st.text(_TEXT, min_size=1, max_size=20)
        return st.dictionaries(names, _members(schema["additionalProperties"]), max_size=3)
    return None


def _members(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "integer" in schema.get("type", ()):
        return st.none() | st.integers(schema["minimum"], schema["maximum"])
    return _texts(schema)


def _texts(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    pattern = schema.get("pattern", "")
    if "maxLength" in schema and not pattern.startswith("^("):
        return st.text(_TEXT, min_size=schema.get("minLength", 0), max_size=min(schema["maxLength"], 40))
    return st.from_regex(pattern, fullmatch=True)
