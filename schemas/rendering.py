"""How records look in JSON to the outside: one function per record, so stored results, reads and events agree.

If two renderings differed, a replay would not equal what a reader sees. Times are RFC 3339 in UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from schemas import records

_SECOND_US: Final = 1_000_000


@lru_cache(maxsize=4_096)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def timestamp(time_us: int) -> str:
    """Microseconds since the epoch as RFC 3339, exactly: ``2026-01-02T03:04:05.000006Z``."""
    seconds, rest = divmod(time_us, _SECOND_US)
    return f"{_second(seconds)}.{rest:06d}Z"


def payment_intent(intent: records.PaymentIntent) -> dict[str, Any]:
    """The public resource of a payment intent."""
    return {
        "id": intent.id,
        "object": "payment_intent",
        "merchant_id": intent.merchant_id,
        "amount": intent.amount,
        "currency": intent.currency,
        "state": intent.state,
        "version": intent.version,
        "capture_method": intent.capture_method,
        "payment_method": intent.payment_method,
        "processor": intent.processor,
        "amount_capturable": intent.amount_capturable,
        "amount_received": intent.amount_received,
        "amount_refunded": intent.amount_refunded,
        "amount_disputed": intent.amount_disputed,
        "last_payment_error": None if intent.last_payment_error is None else {"code": intent.last_payment_error},
        "cancellation_reason": intent.cancellation_reason,
        "latest_attempt": intent.latest_attempt,
        "metadata": intent.metadata,
        "created_at": timestamp(intent.created_at),
        "updated_at": timestamp(intent.updated_at),
    }


def event(committed: records.Event, body: dict[str, Any]) -> dict[str, Any]:
    """The public envelope of an event around its rendered body. Cursors tell its place."""
    return {
        "event_id": committed.event_id,
        "aggregate_key": committed.aggregate_key,
        "event_type": committed.event_type,
        "schema_version": committed.schema_version,
        "trace_id": committed.trace_id,
        "occurred_at": timestamp(committed.occurred_at),
        "version": committed.version,
        "operation": committed.operation,
        "body": body,
    }


def payment_event_body(body: dict[str, Any]) -> dict[str, Any]:
    """What a merchant sees of a payment event: the intent and its attempt. Ledger accounts stay inside."""
    attempt = body["processor_attempt"]
    if attempt is not None:
        times = {name: timestamp(attempt[name]) for name in ("created_at", "updated_at")}
        attempt = {"object": "processor_attempt", **attempt, **times}
    intent = records.PaymentIntent(**body["payment_intent"])
    return {"payment_intent": payment_intent(intent), "processor_attempt": attempt}
