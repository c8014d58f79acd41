"""Notification items of Adyen. ``merchantReference`` is the operation that we gave with the call.

Chargebacks carry that of the original payment, the operation of the charge. Source: Adyen's event codes.
"""

from __future__ import annotations

from typing import Any, Final

from dataflows.payments.webhooks import fields
from dataflows.payments.webhooks.findings import AttemptOutcome, DisputeChange, Finding, Nothing, Unknown
from schemas import identity

#: event code -> status when successful, status when not, the only kind of attempt that it speaks of
_OUTCOMES: Final[dict[str, tuple[str, str, str | None]]] = {
    "AUTHORISATION": ("charged", "declined", None),
    "CAPTURE": ("captured", "failed", "capture"),
    "CAPTURE_FAILED": ("failed", "failed", "capture"),
    "CANCELLATION": ("voided", "failed", "void"),
    "EXPIRE": ("voided", "failed", "authorize"),
    "REFUND": ("refunded", "failed", "refund"),
    "REFUND_FAILED": ("failed", "failed", "refund"),
    "REFUNDED_REVERSED": ("failed", "failed", "refund"),
}
#: failures of refunds that had been told as successful
_AFTER_SUCCESS: Final = frozenset({"REFUND_FAILED", "REFUNDED_REVERSED"})
#: event code -> state of the dispute and of its money
_DISPUTES: Final = {
    "REQUEST_FOR_INFORMATION": ("warning_needs_response", "none"),
    "NOTIFICATION_OF_CHARGEBACK": ("needs_response", "none"),
    "CHARGEBACK": ("needs_response", "withdrawn"),
    "CHARGEBACK_REVERSED": ("won", "reinstated"),
    "SECOND_CHARGEBACK": ("lost", "withdrawn"),
}


def read(event_type: str, item: dict[str, Any]) -> Finding:
    """What one item says. Raises Surprise."""
    if event_type in _OUTCOMES:
        return _outcome(event_type, item)
    if event_type in _DISPUTES:
        return _dispute(event_type, item)
    return Nothing(f"notifications {event_type} say nothing about money")


def _outcome(event_type: str, item: dict[str, Any]) -> Finding:
    operation_id = _ours(item)
    if operation_id is None:
        return Unknown(fields.text(item, "pspReference"))
    succeeded, refused, only_kind = _OUTCOMES[event_type]
    is_success = fields.text(item, "success") == "true"
    amount = fields.part(item, "amount")
    return AttemptOutcome(
        operation_id=operation_id,
        status=succeeded if is_success else refused,
        provider_ref=fields.text(item, "pspReference"),
        amount=fields.optional_amount(amount, "value"),
        currency=fields.currency(amount, "currency"),
        error_code="expired"
        if event_type == "EXPIRE"
        else None
        if is_success
        else fields.optional_text(item, "reason"),
        only_kind=only_kind,
        after_success=event_type in _AFTER_SUCCESS,
    )


def _dispute(event_type: str, item: dict[str, Any]) -> Finding:
    operation_id = _ours(item)
    place = identity.place_of_operation(operation_id or "")
    if place is None:
        return Unknown(fields.text(item, "pspReference"))
    status, funds = _DISPUTES[event_type]
    amount = fields.part(item, "amount")
    return DisputeChange(
        intent_id=place[0],
        # it takes the money of a dispute that was won once more: a dispute of its own
        provider_ref=fields.text(item, "pspReference") + (":second" if event_type == "SECOND_CHARGEBACK" else ""),
        status=status,
        funds=funds,
        amount=fields.amount(amount, "value"),
        currency=fields.text(amount, "currency").upper(),
        fee=0,  # comes with the settlement
        reason=fields.optional_text(item, "reason"),
        evidence_due_by=fields.zoned_time(fields.part(item, "additionalData"), "defensePeriodEndsAt"),
    )


def _ours(item: dict[str, Any]) -> str | None:
    reference = fields.optional_text(item, "merchantReference")
    return reference if reference and identity.place_of_operation(reference) else None
