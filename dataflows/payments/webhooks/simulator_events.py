"""Events of the simulator, which speaks our words: data names our operation and our intent."""

from __future__ import annotations

from typing import Any, Final

from dataflows.payments.webhooks import fields
from dataflows.payments.webhooks.findings import AttemptOutcome, DisputeChange, Finding, Nothing, Unknown

_MS_US: Final = 1_000
_STATUS: Final = {
    "charge.authorized": "authorized",
    "charge.captured": "captured",
    "charge.declined": "declined",
    "charge.failed": "failed",
    "charge.voided": "voided",
    "charge.expired": "voided",
    "charge.requires_action": "requires_action",
    "refund.pending": "pending",
    "refund.requires_action": "requires_action",
    "refund.succeeded": "refunded",
    "refund.failed": "failed",
}
_DISPUTES: Final = frozenset(
    {"dispute.created", "dispute.updated", "dispute.funds_withdrawn", "dispute.funds_reinstated", "dispute.closed"}
)
TYPES: Final = _STATUS.keys() | _DISPUTES


def read(event_type: str, body: dict[str, Any]) -> Finding:
    """What one event says. Raises Surprise."""
    data = fields.part(body, "data")
    if event_type in _STATUS:
        return _outcome(_STATUS[event_type], data)
    if event_type in _DISPUTES:
        return _dispute(data)
    return Nothing(f"events of type {event_type} say nothing about money")


def _outcome(status: str, data: dict[str, Any]) -> Finding:
    operation_id = fields.optional_text(data, "operation_id")
    if operation_id is None:
        return Unknown(fields.optional_text(data, "provider_ref") or fields.text(data, "reference"))
    until_ms = fields.optional_amount(data, "authorized_until_ms")
    return AttemptOutcome(
        operation_id=operation_id,
        status=status,
        provider_ref=fields.optional_text(data, "provider_ref"),
        amount=fields.optional_amount(data, "amount"),
        currency=fields.currency(data, "currency"),
        error_code=fields.optional_text(data, "error_code"),
        after_success=data.get("after_success") is True,
        redirect_url=fields.optional_url(data, "redirect_url"),
        authorized_until=None if until_ms is None else until_ms * _MS_US,
        only_kind="refund" if status == "pending" else None,
        pending_reason=fields.optional_text(data, "pending_reason") if status == "pending" else None,
    )


def _dispute(data: dict[str, Any]) -> Finding:
    intent_id = fields.optional_text(data, "reference")
    dispute, due_ms = fields.text(data, "dispute_id"), fields.optional_amount(data, "evidence_due_by_ms")
    if intent_id is None:
        return Unknown(dispute)
    return DisputeChange(
        intent_id=intent_id,
        provider_ref=dispute,
        status=fields.text(data, "status"),
        funds=fields.text(data, "funds"),
        amount=fields.amount(data, "amount"),
        currency=fields.text(data, "currency").upper(),
        fee=fields.optional_amount(data, "fee") or 0,
        reason=fields.optional_text(data, "reason"),
        evidence_due_by=None if due_ms is None else due_ms * _MS_US,
    )
