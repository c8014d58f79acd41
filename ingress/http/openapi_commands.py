"""The JSON schemas of commands as clients send them: the payload of an operation, and the envelope around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingress.http.openapi_schemas import IDEMPOTENCY_KEY, REQUEST_ID, a_schema, ref
from schemas import limits
from schemas.operation import Operation
from schemas.services import OPERATIONS

Json = dict[str, Any]


def _envelope(operation: Operation, is_required: bool) -> Json:
    properties = {
        "operation": {"type": ["string", "null"], "enum": [operation.template, None]},
        "request_id": {**REQUEST_ID, "type": ["string", "null"]},
        "idempotency_key": {**IDEMPOTENCY_KEY, "type": ["string", "null"]},
        "aggregate_key": {"type": "null", "description": "The target's id; it follows from the route"},
        "expected_version": {
            "type": ["integer", "null"],
            "minimum": 0,
            "maximum": limits.EXPECTED_VERSION_MAX,
        },
        "payload": ref(f"{operation.record}Payload"),
    }
    # The key may come in the header; a payload whose fields are all optional may be left out.
    return a_schema(properties, ["payload"] if is_required else [], closed=True)


def components(payloads: Mapping[str, Json]) -> dict[str, Json]:
    """The two forms of every operation that a client may call. ``payloads``: their schemas, by record."""
    found: dict[str, Json] = {}
    for operation in OPERATIONS.values():
        if operation.scope:
            found[f"{operation.record}Payload"] = payloads[operation.record]
            found[f"{operation.record}Command"] = _envelope(operation, bool(payloads[operation.record]["required"]))
    return found
