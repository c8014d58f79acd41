"""The JSON schemas that all services share: their words, and what every command, event and refusal looks like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from ingress import limits as ingress_limits
from schemas import limits
from schemas.fields.column import Declared, Kind
from schemas.renderer import shown

Json = dict[str, Any]

OVERVIEW: Final = (
    "Every mutating call is a command with a retry identity: send the envelope, or the bare payload with the header"
    " Idempotency-Key. The same identity again answers the same status and body, with Idempotency-Replayed: true."
    " The header X-Deadline-Ms gives a command a time (from now, in milliseconds) after which it must not be started"
    " any more: then the answer is 504 deadline_exceeded, nothing was done, and the same identity may try again."
    " A merchant may require that such calls are signed (RFC 9421): Accept-Signature of a 401 signature_required says"
    " what to cover. Calls without an identity are carried out once for each signature."
)
COMMANDS_DOC: Final = (
    "One envelope per line, each with its operation, such as POST /v1/payment_intents. One line answers each, in order:"
    ' {"status", "result", "event"}, {"status", "problem"} or {"status": 202, "request_id"}; with "replayed": true when'
    " the answer was stored before. Blank lines are skipped."
)
# Any visible text: control characters are refused, everything else is the caller's own.
TEXT: Final = r"^[^\u0000-\u001f\u007f]*$"
REQUEST_ID: Final[Json] = {
    "type": "string",
    "pattern": rf"^[A-Za-z0-9._:~-]{{1,{limits.REQUEST_ID_LENGTH_MAX}}}$",
}
IDEMPOTENCY_KEY: Final[Json] = {
    "type": "string",
    "minLength": 1,
    "maxLength": limits.IDEMPOTENCY_KEY_LENGTH_MAX,
    "pattern": TEXT,
}
OBJECT_ID: Final[Json] = {"type": "string", "pattern": rf"^[A-Za-z0-9_]{{1,{limits.AGGREGATE_KEY_LENGTH_MAX}}}$"}
WORD: Final[Json] = {"type": "string", "pattern": rf"^[a-z0-9_]{{1,{limits.AGGREGATE_KEY_LENGTH_MAX}}}$"}
CURSOR: Final[Json] = {"type": "string", "maxLength": ingress_limits.QUERY_TEXT_LENGTH_MAX}

AMOUNT: Final[Json] = {"type": "integer", "minimum": 1, "maximum": limits.AMOUNT_MINOR_MAX}
SUM: Final[Json] = {"type": "integer", "minimum": 0}
TIME: Final[Json] = {"type": "string", "format": "date-time"}
INTEGER: Final[Json] = {"type": "integer"}
INTEGER_OR_NULL: Final[Json] = {"type": ["integer", "null"]}
STRING: Final[Json] = {"type": "string"}
TEXT_OR_NULL: Final[Json] = {"type": ["string", "null"]}
TIME_OR_NULL: Final[Json] = {"type": ["string", "null"], "format": "date-time"}
_METADATA: Final[Json] = {"type": "object", "additionalProperties": STRING}


def ref(name: str) -> Json:
    """A reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}


def a_schema(properties: Json, required: list[str] | None = None, *, closed: bool = False) -> Json:
    """An object; every property is required unless ``required`` says otherwise."""
    made: Json = {"type": "object", "properties": properties}
    made["required"] = list(properties) if required is None else required
    if closed:
        made["additionalProperties"] = False
    return made


def resource(record: type[Struct], name: str, forms: Mapping[str, Json] | None = None) -> Json:
    """A record as the API shows it (``schemas.renderer``). ``forms``: those of what is not shown as it is."""
    forms = forms or {}
    first, *rest = shown(record)
    members = {str(field.public): forms.get(field.name) or _column(field) for field in (first, *rest)}
    return a_schema({str(first.public): members[str(first.public)], "object": {"const": name}} | members)


def _column(field: Declared) -> Json:
    if field.choices:
        return {"enum": [*field.choices, *([None] if field.nullable else [])]}
    made: Json = dict(_KINDS[field.kind])
    if field.nullable:
        made["type"] = [made["type"], "null"]
    if field.column.minimum is not None:
        made["minimum"] = field.column.minimum
    if field.column.length_max is not None:
        made["maxLength"] = field.column.length_max
    return made


_KINDS: Final[dict[Kind, Json]] = {
    "text": STRING,
    "integer": INTEGER,
    "bigint": INTEGER,
    "time": TIME,
    "boolean": {"type": "boolean"},
    "texts": _METADATA,
}


def array_of(item: Json) -> Json:
    """An array of such items."""
    return {"type": "array", "items": item}


def list_of(item: Json) -> Json:
    """A list that comes whole, of such items."""
    return a_schema({"data": array_of(item)})


def page_of(item: Json) -> Json:
    """One page of a list, of such items."""
    return a_schema({"data": array_of(item), "has_more": {"type": "boolean"}, "next_cursor": TEXT_OR_NULL})


def components() -> dict[str, Json]:
    """What no service says by itself."""
    event = dict.fromkeys(("event_id", "aggregate_key", "event_type", "trace_id"), STRING)
    event |= {"schema_version": {"type": "integer", "minimum": 1}}
    error = a_schema({"field": STRING, "reason": STRING})
    return {
        "Event": a_schema(event),
        "Accepted": a_schema({"request_id": STRING, "status": {"const": "pending"}}),
        "Problem": a_schema(
            {
                "type": STRING,
                "title": STRING,
                "status": {"type": "integer"},
                "detail": STRING,
                "code": STRING,
                "errors": array_of(error),
                "current_version": {"type": "integer"},
                "current_state": STRING,
                "capturable": {"type": "integer"},
                "refundable": {"type": "integer"},
                "available": {"type": "integer"},
                "reserved": {"type": "integer"},
                "authorized": {"type": "integer"},
            },
            ["type", "title", "status", "detail", "code"],
        ),
        "CommittedEvent": a_schema(
            event | {"occurred_at": TIME, "version": SUM, "operation": STRING, "body": {"type": "object"}}
        ),
        "EventPage": page_of(ref("CommittedEvent")),
        "RegistryError": a_schema({"error_code": {"type": "integer"}, "message": STRING}),
    }


def operation_status(results: list[Json]) -> Json:
    """What became of a command, of whichever service. ``results``: what those show that were committed."""
    known = {
        "request_id": STRING,
        "status": {"enum": ["pending", "committed", "refused", "parked"]},
        "result": {"anyOf": results},
        "event": ref("Event"),
        "problem": ref("Problem"),
    }
    return a_schema(known, ["request_id", "status"])
