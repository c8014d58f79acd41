"""The JSON schemas of the public contract. Bounds are the named ones; shapes are those of ``schemas/rendering.py``."""

from __future__ import annotations

from typing import Any, Final

from schemas import currency, limits
from schemas.operations import OPERATIONS

Json = dict[str, Any]

OVERVIEW: Final = (
    "Every mutating call is a command with a retry identity: send the envelope, or the bare payload with the header"
    " Idempotency-Key. The same identity again answers the same status and body, with Idempotency-Replayed: true."
    " The header X-Deadline-Ms gives a command a time (from now, in milliseconds) after which it must not be started"
    " any more: then the answer is 504 deadline_exceeded, nothing was done, and the same identity may try again."
)
COMMANDS_DOC: Final = (
    "One envelope per line, each with its operation, such as POST /v1/payment_intents. One line answers each, in order:"
    ' {"status", "result", "event"}, {"status", "problem"} or {"status": 202, "request_id"}; with "replayed": true when'
    " the answer was stored before. Blank lines are skipped."
)
# Any visible text: control characters are refused, everything else is the caller's own.
_TEXT: Final = r"^[^\u0000-\u001f\u007f]*$"
REQUEST_ID: Final[Json] = {
    "type": "string",
    "pattern": rf"^[A-Za-z0-9._:~-]{{1,{limits.REQUEST_ID_LENGTH_MAX}}}$",
}
IDEMPOTENCY_KEY: Final[Json] = {
    "type": "string",
    "minLength": 1,
    "maxLength": limits.IDEMPOTENCY_KEY_LENGTH_MAX,
    "pattern": _TEXT,
}
INTENT_ID: Final[Json] = {"type": "string", "pattern": rf"^[A-Za-z0-9_]{{1,{limits.AGGREGATE_KEY_LENGTH_MAX}}}$"}
CURSOR: Final[Json] = {"type": "string", "maxLength": limits.QUERY_TEXT_LENGTH_MAX}

_AMOUNT: Final[Json] = {"type": "integer", "minimum": 1, "maximum": limits.AMOUNT_MINOR_MAX}
_SUM: Final[Json] = {"type": "integer", "minimum": 0}
_TIME: Final[Json] = {"type": "string", "format": "date-time"}
_STRING: Final[Json] = {"type": "string"}
_TOKEN: Final[Json] = {
    "type": ["string", "null"],
    "maxLength": limits.TOKEN_LENGTH_MAX,
    "pattern": r"^tok_[\u0020-\u007e]*$",
}
_METADATA: Final[Json] = {
    "type": "object",
    "maxProperties": limits.METADATA_KEYS_MAX,
    "propertyNames": {"minLength": 1, "maxLength": limits.METADATA_KEY_LENGTH_MAX, "pattern": _TEXT},
    "additionalProperties": {
        "type": "string",
        "maxLength": limits.METADATA_VALUE_LENGTH_MAX,
        "pattern": _TEXT,
    },
}
_REASONS: Final = ["duplicate", "fraudulent", "requested_by_customer", "abandoned", None]
_STATES: Final = [
    "requires_payment_method",
    "requires_confirmation",
    "requires_action",
    "requires_merchant_action",
    "processing",
    "requires_capture",
    "succeeded",
    "canceled",
]


def ref(name: str) -> Json:
    """A reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}


def _object(properties: Json, required: list[str] | None = None, *, closed: bool = False) -> Json:
    made: Json = {"type": "object", "properties": properties}
    made["required"] = list(properties) if required is None else required
    if closed:
        made["additionalProperties"] = False
    return made


_PAYLOADS: Final[dict[str, Json]] = {
    "CreatePaymentIntent": _object(
        {
            "amount": _AMOUNT,
            "currency": {"enum": sorted(currency.EXPONENTS)},
            "payment_method": _TOKEN,
            "capture_method": {"enum": ["automatic", "manual"]},
            "metadata": _METADATA,
        },
        ["amount", "currency"],
        closed=True,
    ),
    "ConfirmPaymentIntent": _object({"payment_method": _TOKEN}, [], closed=True),
    "CapturePaymentIntent": _object(
        {"amount": {**_AMOUNT, "type": ["integer", "null"]}, "final": {"type": "boolean"}}, [], closed=True
    ),
    "CancelPaymentIntent": _object({"cancellation_reason": {"enum": _REASONS}}, [], closed=True),
}


def _envelope(record: str, operation: str) -> Json:
    properties = {
        "operation": {"type": ["string", "null"], "enum": [operation, None]},
        "request_id": {**REQUEST_ID, "type": ["string", "null"]},
        "idempotency_key": {**IDEMPOTENCY_KEY, "type": ["string", "null"]},
        "aggregate_key": {"type": "null", "description": "The target's id; it follows from the route"},
        "expected_version": {
            "type": ["integer", "null"],
            "minimum": 0,
            "maximum": limits.EXPECTED_VERSION_MAX,
        },
        "payload": ref(f"{record}Payload"),
    }
    # The key may come in the header; a payload whose fields are all optional may be left out.
    return _object(properties, ["payload"] if _PAYLOADS[record]["required"] else [], closed=True)


def _intent() -> Json:
    return _object(
        {
            "id": _STRING,
            "object": {"const": "payment_intent"},
            "merchant_id": _STRING,
            "amount": _AMOUNT,
            "currency": _STRING,
            "state": {"enum": _STATES},
            "version": {"type": "integer", "minimum": 1},
            "capture_method": {"enum": ["automatic", "manual"]},
            "payment_method": {"type": ["string", "null"]},
            "processor": _STRING,
            "amount_capturable": _SUM,
            "amount_received": _SUM,
            "amount_refunded": _SUM,
            "amount_disputed": _SUM,
            "last_payment_error": {"anyOf": [_object({"code": _STRING}), {"type": "null"}]},
            "cancellation_reason": {"type": ["string", "null"]},
            "latest_attempt": _SUM,
            "metadata": {"type": "object", "additionalProperties": _STRING},
            "created_at": _TIME,
            "updated_at": _TIME,
        }
    )


def _page(item: str) -> Json:
    return _object(
        {
            "data": {"type": "array", "items": ref(item)},
            "has_more": {"type": "boolean"},
            "next_cursor": {"type": ["string", "null"]},
        }
    )


def components() -> dict[str, Json]:
    """Every named schema of the document."""
    event = dict.fromkeys(("event_id", "aggregate_key", "event_type", "trace_id"), _STRING)
    event |= {"schema_version": {"type": "integer", "minimum": 1}}
    error = _object({"field": _STRING, "reason": _STRING})
    found: dict[str, Json] = {
        "PaymentIntent": _intent(),
        "Event": _object(event),
        "Committed": _object({"result": ref("PaymentIntent"), "event": ref("Event")}),
        "Accepted": _object({"request_id": _STRING, "status": {"const": "pending"}}),
        "Problem": _object(
            {
                "type": _STRING,
                "title": _STRING,
                "status": {"type": "integer"},
                "detail": _STRING,
                "code": _STRING,
                "errors": {"type": "array", "items": error},
                "current_version": {"type": "integer"},
                "current_state": _STRING,
            },
            ["type", "title", "status", "detail", "code"],
        ),
        "PaymentIntentPage": _page("PaymentIntent"),
        "CommittedEvent": _object(
            event | {"occurred_at": _TIME, "version": _SUM, "operation": _STRING, "body": {"type": "object"}}
        ),
        "EventPage": _page("CommittedEvent"),
        "OperationStatus": _object(
            {
                "request_id": _STRING,
                "status": {"enum": ["pending", "committed", "refused", "parked"]},
                "result": ref("PaymentIntent"),
                "event": ref("Event"),
                "problem": ref("Problem"),
            },
            ["request_id", "status"],
        ),
        "Checkpoint": _object(
            {
                "name": _STRING,
                "scenario": _STRING,
                "operation_id": _STRING,
                "aggregate_key": {"type": ["string", "null"]},
                "last_durable_version": {"type": ["integer", "null"]},
                "projection_checkpoint": {"type": "array"},
                "retry_policy": {"type": "object"},
                "reconciliation_status": {"enum": ["pending", "clean", "gaps"]},
                "owner": _STRING,
                "created_at": _TIME,
            }
        ),
        "CheckpointPage": _page("Checkpoint"),
        "RegistryError": _object({"error_code": {"type": "integer"}, "message": _STRING}),
    }
    for operation in OPERATIONS.values():
        if operation.scope:
            found[f"{operation.record}Payload"] = _PAYLOADS[operation.record]
            found[f"{operation.record}Command"] = _envelope(operation.record, operation.template)
    return found
