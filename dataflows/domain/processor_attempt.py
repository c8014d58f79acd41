"""Facts about processor attempts: what the outside world did, decided once, whatever door it came through.

Rule: after an unknown outcome no other attempt exists until this one is definitive (spec 1 section 3). A fact that says
nothing new is refused as ``stale_fact`` and changes nothing. Source: reference states 3.1 and 3.2, postings 3.5.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs

from dataflows.domain import ledger
from dataflows.domain.decision import Context, Decision, Payment
from dataflows.domain.payment_intent import advance
from schemas.records import Command, ProcessorAttempt, Rejection

OPEN: Final = frozenset({"created", "pending", "unknown", "manual_review"})
_UNDECIDED: Final = frozenset({"pending", "unknown", "manual_review"})  # facts that settle nothing
_REFUSED: Final = frozenset({"declined", "failed"})
_SUCCESS: Final = {"authorize": "authorized", "purchase": "captured", "capture": "captured", "void": "voided"}
_LIVE_CHARGE: Final = frozenset({"authorize", "purchase"})


def decide_outcome(payment: Payment, command: Command, context: Context) -> Decision | Rejection:
    """The state after a fact about one attempt."""
    fact: dict[str, Any] = command.payload
    attempt = payment.attempts.get(fact["attempt"])
    if attempt is None or attempt.operation_id != fact["operation_id"]:
        return Rejection("not_found", "No such attempt.", {})
    status: str = fact["status"]
    if attempt.status not in OPEN:
        return _contradiction(payment, attempt, fact, context)
    if status in _UNDECIDED:
        return _undecided(payment, attempt, fact, context)
    if status in _REFUSED:
        return _refused(payment, attempt, fact, context)
    return _succeeded(payment, attempt, fact, context)


def _undecided(
    payment: Payment, attempt: ProcessorAttempt, fact: dict[str, Any], context: Context
) -> Decision | Rejection:
    if fact["status"] == attempt.status or attempt.status == "manual_review":
        return _stale(attempt)
    changed = _changed(attempt, context, status=fact["status"], error_code=fact["error_code"])
    return Decision(intent=advance(payment.intent, context), attempt=changed)


def _refused(payment: Payment, attempt: ProcessorAttempt, fact: dict[str, Any], context: Context) -> Decision:
    """A definitive no: a charge may be tried again with another method, a capture or void from the hold."""
    code = fact["error_code"] or fact["status"]
    changed = _changed(
        attempt, context, status=fact["status"], error_code=code, provider_ref=fact["provider_ref"]
    )
    state = "requires_payment_method" if attempt.kind in _LIVE_CHARGE else "requires_capture"
    return Decision(
        intent=advance(payment.intent, context, state=state, last_payment_error=code), attempt=changed
    )


def _succeeded(
    payment: Payment, attempt: ProcessorAttempt, fact: dict[str, Any], context: Context
) -> Decision | Rejection:
    mismatch = _integrity_error(attempt, fact)
    if mismatch:  # the processor did something else: people decide, nothing is posted
        if attempt.status == "manual_review":
            return _stale(attempt)
        changed = _changed(
            attempt, context, status="manual_review", error_code=mismatch, provider_ref=fact["provider_ref"]
        )
        return Decision(intent=advance(payment.intent, context, last_payment_error=mismatch), attempt=changed)
    changed = _changed(
        attempt, context, status=fact["status"], error_code=None, provider_ref=fact["provider_ref"]
    )
    return _EFFECTS[attempt.kind](payment, changed, context)


def _integrity_error(attempt: ProcessorAttempt, fact: dict[str, Any]) -> str | None:
    """Why an answer is not the answer to what we asked; the echo is checked, not trusted."""
    if fact["status"] != _SUCCESS[attempt.kind]:
        return "unexpected_status"
    if fact["amount"] != attempt.amount:
        return "amount_mismatch"
    if fact["currency"] != attempt.currency:
        return "currency_mismatch"
    return None


def _authorized(payment: Payment, attempt: ProcessorAttempt, context: Context) -> Decision:
    intent = advance(
        payment.intent,
        context,
        state="requires_capture",
        amount_capturable=attempt.amount,
        last_payment_error=None,
    )
    posting = ledger.authorize(attempt.operation_id, attempt.amount, _parties(payment))
    return Decision(intent=intent, attempt=attempt, postings=(posting,))


def _purchased(payment: Payment, attempt: ProcessorAttempt, context: Context) -> Decision:
    before = payment.intent
    intent = advance(
        before,
        context,
        state="canceled" if before.state == "canceled" else "succeeded",
        amount_received=before.amount_received + attempt.amount,
        last_payment_error=None,
    )
    posting = ledger.capture(attempt.operation_id, attempt.amount, 0, _parties(payment), context.fees)
    return Decision(intent=intent, attempt=attempt, postings=(posting,))


def _captured(payment: Payment, attempt: ProcessorAttempt, context: Context) -> Decision:
    before = payment.intent
    released = before.amount_capturable if attempt.final else attempt.amount
    left = before.amount_capturable - released
    intent = advance(
        before,
        context,
        state="requires_capture" if left else "succeeded",
        amount_capturable=left,
        amount_received=before.amount_received + attempt.amount,
        last_payment_error=None,
    )
    posting = ledger.capture(attempt.operation_id, attempt.amount, released, _parties(payment), context.fees)
    return Decision(intent=intent, attempt=attempt, postings=(posting,))


def _voided(payment: Payment, attempt: ProcessorAttempt, context: Context) -> Decision:
    before = payment.intent
    intent = advance(
        before,
        context,
        state="succeeded" if before.amount_received else "canceled",
        amount_capturable=0,
        last_payment_error=None,
    )
    posting = ledger.void(attempt.operation_id, before.amount_capturable, _parties(payment))
    return Decision(intent=intent, attempt=attempt, postings=(posting,))


_EFFECTS: Final = {"authorize": _authorized, "purchase": _purchased, "capture": _captured, "void": _voided}


def _contradiction(
    payment: Payment, attempt: ProcessorAttempt, fact: dict[str, Any], context: Context
) -> Decision | Rejection:
    """A late fact about an attempt that was already definitive. Money facts win over a refusal, once."""
    late_charge = attempt.kind == "purchase" and attempt.status in _REFUSED and fact["status"] == "captured"
    if not late_charge or _integrity_error(attempt, fact):
        return _stale(attempt)
    if any(a.kind in _LIVE_CHARGE and a.status not in _REFUSED for a in payment.attempts.values()):
        return Rejection(
            "contradicts_attempt",
            "The processor charged an attempt that it had refused, and another one is live.",
            {},
        )
    changed = _changed(
        attempt, context, status="captured", error_code=None, provider_ref=fact["provider_ref"]
    )
    return _purchased(payment, changed, context)


def _stale(attempt: ProcessorAttempt) -> Rejection:
    return Rejection(
        "stale_fact", "The attempt already has this or a later status.", {"status": attempt.status}
    )


def _changed(attempt: ProcessorAttempt, context: Context, **changes: object) -> ProcessorAttempt:
    if changes.get("provider_ref") is None:
        changes["provider_ref"] = attempt.provider_ref
    return structs.replace(attempt, updated_at=context.now, **changes)


def _parties(payment: Payment) -> ledger.Parties:
    intent = payment.intent
    return ledger.Parties(intent.processor, intent.merchant_id, intent.currency)
