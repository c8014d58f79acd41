"""The JSON schemas of commands as clients send them: the payload of an operation, and the envelope around it."""

from __future__ import annotations

import re
from typing import Any

from ingress import limits
from ingress.http.openapi.shared import IDEMPOTENCY_KEY, REQUEST_ID, a_schema, ref
from schemas.fields.validation import Field
from schemas.operation import Operation
from schemas.services import OPERATIONS

Json = dict[str, Any]
_OF_THE_ROUTE = "The id of the route, which says it already"


def field_schema(field: Field) -> Json:
    """What one field of a payload may be, and what it is."""
    kind = dict(field.type.json)
    if field.nullable and "type" in kind:
        kind["type"] = [kind["type"], "null"]
    elif field.nullable and "enum" in kind:
        kind["enum"] = [*kind["enum"], None]
    elif field.nullable:
        kind["anyOf"] = [*kind["anyOf"], {"type": "null"}]
    return {**kind, "description": field.doc}


def payload(operation: Operation, without: tuple[str, ...] = ()) -> Json:
    """The payload of an operation; the id of the path need not be said again. ``without``: what the caller may not."""
    if operation.document:
        return {"type": "object", "description": "The caller's own object", "required": []}
    fields = {name: field for name, field in operation.payload.items() if name not in without}
    routed = {operation.path_field, *re.findall(r"{(\w+)}", operation.path)}
    properties = {name: field_schema(field) for name, field in fields.items()}
    for name in routed & properties.keys():
        properties[str(name)]["description"] = _OF_THE_ROUTE
    required = [name for name, field in fields.items() if field.is_required and name not in routed]
    return a_schema(properties, required, closed=True)


def _envelope(operation: Operation, is_required: bool) -> Json:
    properties = {
        "operation": {"type": ["string", "null"], "enum": [operation.template, None]},
        "request_id": {**REQUEST_ID, "type": ["string", "null"]},
        "idempotency_key": {**IDEMPOTENCY_KEY, "type": ["string", "null"]},
        # a type and null in place of null alone: generators of clients know no value that is null only
        "aggregate_key": {"type": ["string", "null"], "const": None, "description": "It follows from the route"},
        "expected_version": {
            "type": ["integer", "null"],
            "minimum": 0,
            "maximum": limits.EXPECTED_VERSION_MAX,
            **({"example": 1} if operation.needs_version else {}),
        },
        "payload": ref(f"{operation.record}Payload"),
    }
    # The key may come in the header; a payload whose fields are all optional may be left out.
    return a_schema(properties, ["payload"] if is_required else [], closed=True)


def components() -> dict[str, Json]:
    """The two forms of every operation that a client may call."""
    found: dict[str, Json] = {}
    for operation in OPERATIONS.values():
        if operation.scope:
            bare = payload(operation)
            found[f"{operation.record}Payload"] = bare
            found[f"{operation.record}Command"] = _envelope(operation, bool(bare["required"]))
    return found
