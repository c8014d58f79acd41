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
_CHARGES: Final = frozenset({"authorize", "purchase"})  # kinds of which an intent may have one live
_TAKES_MONEY: Final = frozenset({"purchase", "capture"})


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
    changed = _changed(
        attempt, context, status=fact["status"], error_code=fact["error_code"], provider_ref=fact["provider_ref"]
    )
    return Decision(intent=advance(payment.intent, context), attempt=changed)


def _refused(payment: Payment, attempt: ProcessorAttempt, fact: dict[str, Any], context: Context) -> Decision:
    """A definitive no: a charge may be tried again with another method, a capture or void from the hold."""
    code = fact["error_code"] or fact["status"]
    changed = _changed(attempt, context, status=fact["status"], error_code=code, provider_ref=fact["provider_ref"])
    intent = advance(payment.intent, context, state=_after_refusal(payment, attempt), last_payment_error=code)
    if attempt.kind == "void":  # the hold stands, so nothing was canceled
        intent.cancellation_reason = None
    return Decision(intent=intent, attempt=changed)


def _after_refusal(payment: Payment, attempt: ProcessorAttempt) -> str:
    if attempt.kind in _CHARGES:
        return "requires_payment_method"
    # a late capture may have used the hold
    return "requires_capture" if payment.intent.amount_capturable else "succeeded"


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
    changed = _changed(attempt, context, status=fact["status"], error_code=None, provider_ref=fact["provider_ref"])
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
    left = 0 if attempt.final else max(0, payment.intent.amount_capturable - attempt.amount)
    return _taken_from_hold(payment, attempt, context, left, "requires_capture" if left else "succeeded")


def _captured_late(payment: Payment, attempt: ProcessorAttempt, context: Context) -> Decision:
    """The money of a capture that had been refused. Another attempt may be under way: it keeps its turn."""
    before = payment.intent
    left = max(0, before.amount_capturable - attempt.amount)
    if before.state != "requires_capture":
        return _taken_from_hold(payment, attempt, context, left, before.state)
    return _captured(payment, attempt, context)


def _taken_from_hold(payment: Payment, attempt: ProcessorAttempt, context: Context, left: int, state: str) -> Decision:
    before = payment.intent
    intent = advance(
        before,
        context,
        state=state,
        amount_capturable=left,
        amount_received=before.amount_received + attempt.amount,
        last_payment_error=None,
    )
    released = before.amount_capturable - left
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
    if not before.amount_capturable:  # a late capture used the hold up; there is nothing to release
        return Decision(intent=intent, attempt=attempt)
    posting = ledger.void(attempt.operation_id, before.amount_capturable, _parties(payment))
    return Decision(intent=intent, attempt=attempt, postings=(posting,))


_EFFECTS: Final = {"authorize": _authorized, "purchase": _purchased, "capture": _captured, "void": _voided}


def _contradiction(
    payment: Payment, attempt: ProcessorAttempt, fact: dict[str, Any], context: Context
) -> Decision | Rejection:
    """A late fact about an attempt that was already definitive. Money facts win over a refusal, once."""
    if attempt.status not in _REFUSED or attempt.kind not in _TAKES_MONEY or fact["status"] != "captured":
        return _stale(attempt)
    if _integrity_error(attempt, fact):
        return Rejection("contradicts_attempt", "The processor took another amount than was asked of it.", {})
    another_lives = any(a.kind in _CHARGES and a.status not in _REFUSED for a in payment.attempts.values())
    if attempt.kind == "purchase" and another_lives:
        return Rejection(
            "contradicts_attempt",
            "The processor charged an attempt that it had refused, and another one is live.",
            {},
        )
    changed = _changed(attempt, context, status="captured", error_code=None, provider_ref=fact["provider_ref"])
    return (_purchased if attempt.kind == "purchase" else _captured_late)(payment, changed, context)


def _stale(attempt: ProcessorAttempt) -> Rejection:
    return Rejection("stale_fact", "The attempt already has this or a later status.", {"status": attempt.status})


def _changed(attempt: ProcessorAttempt, context: Context, **changes: object) -> ProcessorAttempt:
    if changes.get("provider_ref") is None:
        changes["provider_ref"] = attempt.provider_ref
    return structs.replace(attempt, updated_at=context.now, **changes)


def _parties(payment: Payment) -> ledger.Parties:
    intent = payment.intent
    return ledger.Parties(intent.processor, intent.merchant_id, intent.currency)
