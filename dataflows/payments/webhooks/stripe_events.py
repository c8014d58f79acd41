"""Events of Stripe. What is ours carries ``operation_id`` (and ``reference``, the intent) in its object's metadata.

The adapter gives every call that can carry metadata the operation of that call. What carries none was made by somebody
else on our account: that is money we know nothing of. Source: Stripe's event types and fixtures.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from dataflows.payments.attempts import stripe_answers
from dataflows.payments.attempts.stripe_calls import AGAIN, INCREMENT
from dataflows.payments.webhooks import fields
from dataflows.payments.webhooks.fields import Surprise
from dataflows.payments.webhooks.findings import AttemptOutcome, DisputeChange, Finding, Nothing, Unknown
from schemas.fields.currency import EXPONENTS
from schemas.payments.processor_currency import from_processor

M = TypeVar("M", int, int | None)
#: type of event -> status of the attempt, the field of the amount that moved, the only kind that it speaks of
_PAYMENTS: Final[dict[str, tuple[str, str, str | None]]] = {
    "payment_intent.succeeded": ("captured", "amount_received", None),
    "payment_intent.amount_capturable_updated": ("authorized", "amount_capturable", "authorize"),
    "payment_intent.payment_failed": ("declined", "amount", None),
    "payment_intent.canceled": ("voided", "amount", "void"),
    "payment_intent.requires_action": ("requires_action", "amount", None),
}
_HELD: Final = "payment_intent.amount_capturable_updated"
_REFUNDS: Final = frozenset({"refund.created", "refund.updated", "refund.failed", "charge.refund.updated"})
_REFUND_STATUS: Final = {
    "pending": "pending",
    "requires_action": "requires_action",
    "succeeded": "refunded",
    "failed": "failed",
    "canceled": "failed",
}
_DISPUTES: Final = frozenset(
    f"charge.dispute.{name}" for name in ("created", "updated", "closed", "funds_withdrawn", "funds_reinstated")
)


def read(event_type: str, body: dict[str, Any]) -> Finding:
    """What one event says. Raises Surprise."""
    if event_type in _PAYMENTS:
        return _payment(event_type, _object_of(body))
    if event_type in _REFUNDS:
        return _refund(_object_of(body))
    if event_type in _DISPUTES:
        return _dispute(_object_of(body))
    return Nothing(f"events of type {event_type} say nothing about money")


def _object_of(body: dict[str, Any]) -> dict[str, Any]:
    return fields.part(fields.part(body, "data"), "object")


def _payment(event_type: str, found: dict[str, Any]) -> Finding:
    operation_id = _operation_of(found)
    if operation_id is None:
        return Unknown(fields.text(found, "id"))
    if event_type == _HELD and any(name.startswith(INCREMENT) for name in fields.part(found, "metadata")):
        return Nothing("the hold grew, as the answer to the increment says")
    status, amount_field, only_kind = _PAYMENTS[event_type]
    error = fields.part(found, "last_payment_error") if status == "declined" else {}
    amount = fields.optional_amount(found, amount_field)
    currency = fields.currency(found, "currency")
    minor = _minor(fields.optional_amount(found, "amount") if amount is None else amount, currency)
    if status == "captured":  # one of several captures: the sum says nothing of it
        minor = stripe_answers.one_of_several(operation_id, fields.part(found, "metadata")) or minor
    error_code = fields.optional_text(error, "decline_code") or fields.optional_text(error, "code")
    if status == "voided" and found.get("cancellation_reason") == "automatic":  # Stripe lets holds end after some days
        error_code, only_kind = "expired", "authorize"
    return AttemptOutcome(
        operation_id=operation_id,
        status=status,
        provider_ref=fields.text(found, "id"),
        amount=minor,
        currency=currency,
        error_code=error_code,
        only_kind=only_kind,
        redirect_url=stripe_answers.redirect_of(found) if status == "requires_action" else None,
        next_action=stripe_answers.action_of(found) if status == "requires_action" else None,
    )


def _refund(found: dict[str, Any]) -> Finding:
    status = _REFUND_STATUS.get(fields.optional_text(found, "status") or "")
    reason = stripe_answers.pending_reason(found.get("pending_reason")) if status == "pending" else None
    if status is None or (status == "pending" and reason is None):
        return Nothing("the refund is under way")
    operation_id = _operation_of(found)
    if operation_id is None:
        return Unknown(fields.text(found, "id"))
    currency = fields.currency(found, "currency")
    return AttemptOutcome(
        operation_id=operation_id,
        status=status,
        provider_ref=fields.text(found, "id"),
        amount=_minor(fields.optional_amount(found, "amount"), currency),
        currency=currency,
        error_code=fields.optional_text(found, "failure_reason"),
        # Stripe takes the money when a refund is made: what reverses that is a balance transaction of its own.
        after_success=status == "failed" and found.get("failure_balance_transaction") is not None,
        only_kind="refund",
        pending_reason=reason,
    )


def _dispute(found: dict[str, Any]) -> Finding:
    """No call of ours makes a dispute: it names Stripe's payment. Ours is on it where somebody expanded or set that."""
    charge = found.get("charge")
    metadata = fields.part(charge if isinstance(charge, dict) else {}, "metadata") | fields.part(found, "metadata")
    intent_id, charge_ref = fields.optional_text(metadata, "reference"), _payment_of(found)
    if intent_id is None and charge_ref is None:
        return Unknown(fields.text(found, "id"))
    currency = fields.text(found, "currency").upper()
    funds, fee, times = _funds(found, currency)
    return DisputeChange(
        intent_id=intent_id or "",
        charge_ref=charge_ref,
        # money that was taken once more, after it had come back, is a dispute of its own
        provider_ref=fields.text(found, "id") + (f"{AGAIN}{times}" if times > 1 else ""),
        status=fields.text(found, "status"),
        funds=funds,
        amount=_minor(fields.amount(found, "amount"), currency),
        currency=currency,
        fee=fee,
        reason=fields.optional_text(found, "reason"),
        # 0: the bank takes no evidence
        evidence_due_by=fields.unix_time(fields.part(found, "evidence_details"), "due_by") or None,
    )


def _payment_of(found: dict[str, Any]) -> str | None:
    """The payment intent of Stripe's, by its id or expanded; it is the ``provider_ref`` of our charge."""
    named = found.get("payment_intent")
    return fields.optional_text(named if isinstance(named, dict) else {"id": named}, "id")


def _funds(found: dict[str, Any], currency: str) -> tuple[str, int, int]:
    """What happened to the money, by the balance transactions; the fee of the last withdrawal, and the number of them.

    They are in the currency of the settlement: a fee in another one than the dispute's comes with its settlement line.
    """
    moves = found.get("balance_transactions") or []
    if not isinstance(moves, list) or not all(isinstance(m, dict) and type(m.get("amount")) is int for m in moves):
        raise Surprise("balance_transactions is no list of amounts")
    if all(type(m.get("created")) is int for m in moves):
        moves = sorted(moves, key=lambda move: move["created"])
    else:  # their order is not said: what was taken once came back once
        moves = sorted(moves, key=lambda move: move["amount"])
    funds, fee, times = "none", 0, 0
    for move in moves:
        if move["amount"] >= 0:
            funds = "reinstated" if move["amount"] else funds
            continue
        if funds != "withdrawn":
            funds, fee, times = "withdrawn", 0, times + 1
        if fields.currency(move, "currency") == currency:
            fee += fields.optional_amount(move, "fee") or 0
    return funds, _minor(fee, currency), times


def _minor(amount: M, currency: str | None) -> M:
    """Stripe's amount in our minor units; it counts some currencies otherwise. Surprise when that is not exact."""
    if amount is None or currency not in EXPONENTS:
        return amount
    try:
        return from_processor("stripe", amount, currency)
    except ValueError as error:
        raise Surprise(str(error)) from error


def _operation_of(found: dict[str, Any]) -> str | None:
    return fields.optional_text(fields.part(found, "metadata"), "operation_id")
