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
        "next_action": None if intent.next_action is None else {"type": "redirect_to_url", "url": intent.next_action},
        "authorized_until": None if intent.authorized_until is None else timestamp(intent.authorized_until),
        "metadata": intent.metadata,
        "created_at": timestamp(intent.created_at),
        "updated_at": timestamp(intent.updated_at),
    }


def refund(part: records.Refund) -> dict[str, Any]:
    """The public resource of a refund."""
    return {
        "id": part.id,
        "object": "refund",
        "merchant_id": part.merchant_id,
        "payment_intent": part.intent_id,
        "amount": part.amount,
        "currency": part.currency,
        "state": part.state,
        "reason": part.reason,
        "pending_reason": part.pending_reason,
        "failure_reason": part.failure_reason,
        "version": part.version,
        "metadata": part.metadata,
        "created_at": timestamp(part.created_at),
        "updated_at": timestamp(part.updated_at),
    }


def dispute(part: records.Dispute) -> dict[str, Any]:
    """The public resource of a dispute."""
    return {
        "id": part.id,
        "object": "dispute",
        "merchant_id": part.merchant_id,
        "payment_intent": part.intent_id,
        "processor": part.processor,
        "amount": part.amount,
        "currency": part.currency,
        "fee": part.fee,
        "reason": part.reason,
        "state": part.state,
        "funds": part.funds,
        "evidence_state": part.evidence_state,
        "version": part.version,
        "created_at": timestamp(part.created_at),
        "updated_at": timestamp(part.updated_at),
    }


def merchant_account(account: records.MerchantAccount) -> dict[str, Any]:
    """The public resource of a merchant's account."""
    return {
        "id": account.id,
        "object": "merchant_account",
        "merchant_id": account.merchant_id,
        "state": account.state,
        "frozen_reason": account.frozen_reason,
        "version": account.version,
        "created_at": timestamp(account.created_at),
        "updated_at": timestamp(account.updated_at),
    }


def payout(part: records.Payout) -> dict[str, Any]:
    """The public resource of a payout."""
    return {
        "id": part.id,
        "object": "payout",
        "merchant_id": part.merchant_id,
        "amount": part.amount,
        "currency": part.currency,
        "state": part.state,
        "destination": part.destination,
        "failure_reason": part.failure_reason,
        "version": part.version,
        "metadata": part.metadata,
        "created_at": timestamp(part.created_at),
        "updated_at": timestamp(part.updated_at),
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
    """What a merchant sees of a payment event: the intent and the part that changed. Ledger accounts stay inside."""
    attempt = body["processor_attempt"]
    if attempt is not None:
        times = {name: timestamp(attempt[name]) for name in ("created_at", "updated_at")}
        attempt = {"object": "processor_attempt", **attempt, **times}
    rendered: dict[str, Any] = {"payment_intent": None, "processor_attempt": attempt}
    if body["payment_intent"] is not None:
        rendered["payment_intent"] = payment_intent(records.PaymentIntent(**body["payment_intent"]))
    if body.get("refund") is not None:
        rendered["refund"] = refund(records.Refund(**body["refund"]))
    if body.get("dispute") is not None:
        rendered["dispute"] = dispute(records.Dispute(**body["dispute"]))
    if body.get("payout") is not None:
        rendered["payout"] = payout(records.Payout(**body["payout"]))
    if body.get("account") is not None:  # why it is frozen is between operators
        shown = merchant_account(records.MerchantAccount(**body["account"]))
        rendered["account"] = {name: value for name, value in shown.items() if name != "frozen_reason"}
    return rendered
