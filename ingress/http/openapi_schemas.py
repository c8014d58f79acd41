"""The JSON schemas of the public contract. Bounds are the named ones; shapes are those of ``schemas/rendering.py``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from msgspec import Struct

from ingress import limits as ingress_limits
from schemas import limits
from schemas.column import Declared, Kind
from schemas.payments import records
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
_SUM: Final[Json] = {"type": "integer", "minimum": 0}
_TIME: Final[Json] = {"type": "string", "format": "date-time"}
_INTEGER: Final[Json] = {"type": "integer"}
_STRING: Final[Json] = {"type": "string"}
_TEXT_OR_NULL: Final[Json] = {"type": ["string", "null"]}
_METADATA: Final[Json] = {"type": "object", "additionalProperties": _STRING}


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
    "text": _STRING,
    "integer": _INTEGER,
    "bigint": _INTEGER,
    "time": _TIME,
    "boolean": {"type": "boolean"},
    "texts": _METADATA,
}


def _intent() -> Json:
    return resource(
        records.PaymentIntent,
        "payment_intent",
        {
            "last_payment_error": {"anyOf": [a_schema({"code": _STRING}), {"type": "null"}]},
            "next_action": {"anyOf": [a_schema({"type": _STRING, "url": _STRING}), {"type": "null"}]},
        },
    )


def _refund() -> Json:
    return resource(records.Refund, "refund")


def _dispute() -> Json:
    return resource(records.Dispute, "dispute")


def _fee_policy() -> Json:
    terms = {
        "version": {"type": ["integer", "null"]},
        "effective_at": {"type": ["string", "null"], "format": "date-time"},
        "bps": {"type": "integer", "minimum": 0},
        "fixed": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
        "refunds_return": {"enum": ["nothing", "bps"]},
    }
    upcoming = {"type": "array", "items": a_schema(terms)}
    return a_schema({"object": {"const": "fee_policy"}, "merchant_id": _STRING} | terms | {"upcoming": upcoming})


def _balances() -> Json:
    row = a_schema({"currency": _STRING, "pending": _INTEGER, "available": _INTEGER, "reserved": _INTEGER})
    return a_schema({"data": {"type": "array", "items": row}})


def _case() -> Json:
    return a_schema(
        {
            "id": _STRING,
            "object": {"const": "case"},
            "kind": _STRING,
            "reference": _STRING,
            "processor": _TEXT_OR_NULL,
            "state": {"enum": ["open", "proposed", "resolved"]},
            "evidence": {"type": "object"},
            "opened_at": _TIME,
            "resolved_at": {"type": ["string", "null"], "format": "date-time"},
            "resolved_by": _TEXT_OR_NULL,
            "note": _TEXT_OR_NULL,
        }
    )


def _processors() -> Json:
    health = {"breaker": {"enum": ["closed", "half_open", "open"]}, "as_of": _TIME, "window_s": _SUM}
    health |= dict.fromkeys(("succeeded", "declined", "failed", "unknown"), _SUM)
    row = {
        "object": {"const": "processor"},
        "name": _STRING,
        "adapter": _STRING,
        "share_bps": {"type": ["integer", "null"], "minimum": 0},
        "health": {"anyOf": [a_schema(health), {"type": "null"}]},
    }
    return a_schema({"data": {"type": "array", "items": a_schema(row)}})


def _attempt() -> Json:
    return a_schema(
        {
            "object": {"const": "processor_attempt"},
            "attempt": _SUM,
            "kind": {"enum": list(get_args(records.AttemptKind))},
            "status": {"enum": list(get_args(records.AttemptStatus))},
            "processor": _STRING,
            "amount": _SUM,
            "currency": _STRING,
            "provider_ref": _TEXT_OR_NULL,
            "error_code": _TEXT_OR_NULL,
            "created_at": _TIME,
            "updated_at": _TIME,
        }
    )


def _expandable(document: Json, instead: Json, beside: Json) -> Json:
    """A resource as one read shows it: what ``expand[]`` puts instead of an id, and what it adds."""
    replaced = {name: {"anyOf": [document["properties"][name], schema]} for name, schema in instead.items()}
    return {**document, "properties": document["properties"] | replaced | beside}


def _reads() -> dict[str, Json]:
    first = {
        name: a_schema({"data": {"type": "array", "items": ref(schema)}, "has_more": {"type": "boolean"}})
        for name, schema in (("refunds", "Refund"), ("disputes", "Dispute"))
    }
    attempt = {"anyOf": [_attempt(), {"type": "null"}]}
    of_payment = {"payment_intent": ref("PaymentIntent")}
    return {
        "PaymentIntentRead": _expandable(_intent(), {"latest_attempt": attempt}, first),
        "RefundRead": _expandable(_refund(), of_payment, {}),
        "DisputeRead": _expandable(_dispute(), of_payment, {}),
        "DryRun": a_schema(
            {
                "dry_run": {"const": True},
                "result": {"anyOf": [ref("PaymentIntent"), ref("Refund")]},
                "not_considered": {"type": "array", "items": _STRING},
            }
        ),
    }


def _page(item: str) -> Json:
    return a_schema(
        {
            "data": {"type": "array", "items": ref(item)},
            "has_more": {"type": "boolean"},
            "next_cursor": _TEXT_OR_NULL,
        }
    )


def _checkpoint() -> Json:
    return a_schema(
        {
            "name": _STRING,
            "scenario": _STRING,
            "operation_id": _STRING,
            "aggregate_key": _TEXT_OR_NULL,
            "last_durable_version": {"type": ["integer", "null"]},
            "projection_checkpoint": {"type": "array", "items": {}},
            "retry_policy": {"type": "object"},
            "reconciliation_status": {"enum": ["pending", "clean", "gaps"]},
            "owner": _STRING,
            "created_at": _TIME,
        }
    )


def components() -> dict[str, Json]:
    """Every named schema of the document."""
    event = dict.fromkeys(("event_id", "aggregate_key", "event_type", "trace_id"), _STRING)
    event |= {"schema_version": {"type": "integer", "minimum": 1}}
    error = a_schema({"field": _STRING, "reason": _STRING})
    return {
        "PaymentIntent": _intent(),
        "Event": a_schema(event),
        "Committed": a_schema({"result": ref("PaymentIntent"), "event": ref("Event")}),
        "Accepted": a_schema({"request_id": _STRING, "status": {"const": "pending"}}),
        "Problem": a_schema(
            {
                "type": _STRING,
                "title": _STRING,
                "status": {"type": "integer"},
                "detail": _STRING,
                "code": _STRING,
                "errors": {"type": "array", "items": error},
                "current_version": {"type": "integer"},
                "current_state": _STRING,
                "capturable": {"type": "integer"},
                "refundable": {"type": "integer"},
                "available": {"type": "integer"},
                "reserved": {"type": "integer"},
                "authorized": {"type": "integer"},
            },
            ["type", "title", "status", "detail", "code"],
        ),
        "PaymentIntentPage": _page("PaymentIntent"),
        **_reads(),
        "Refund": _refund(),
        "CommittedRefund": a_schema({"result": ref("Refund"), "event": ref("Event")}),
        "RefundPage": _page("Refund"),
        "Dispute": _dispute(),
        "CommittedDispute": a_schema({"result": ref("Dispute"), "event": ref("Event")}),
        "DisputePage": _page("Dispute"),
        "Balances": _balances(),
        "FeePolicyRead": _fee_policy(),
        "Case": _case(),
        "CasePage": _page("Case"),
        "Processors": _processors(),
        "CommittedEvent": a_schema(
            event | {"occurred_at": _TIME, "version": _SUM, "operation": _STRING, "body": {"type": "object"}}
        ),
        "EventPage": _page("CommittedEvent"),
        "OperationStatus": a_schema(
            {
                "request_id": _STRING,
                "status": {"enum": ["pending", "committed", "refused", "parked"]},
                "result": {"anyOf": [ref("PaymentIntent"), ref("Refund"), ref("Dispute"), ref("Payout")]},
                "event": ref("Event"),
                "problem": ref("Problem"),
            },
            ["request_id", "status"],
        ),
        "Checkpoint": _checkpoint(),
        "CheckpointPage": _page("Checkpoint"),
        "RegistryError": a_schema({"error_code": {"type": "integer"}, "message": _STRING}),
    }
