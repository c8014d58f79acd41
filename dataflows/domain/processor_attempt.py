"""Facts about processor attempts: what the outside world did, decided once, whatever door it came through.

Rule: after an unknown outcome of a charge, capture or void no other of these exists until it is definitive (spec 1
section 3). Refunds run beside them and are decided in ``refund_outcome``. A fact that says nothing new is refused as
``stale_fact`` and changes nothing. Source: reference states 3.1 and 3.2, postings 3.5.
"""

from __future__ import annotations

from typing import Any, Final

from dataflows.domain import ledger, refund, refund_outcome
from dataflows.domain.decision import Context, Decision, Payment
from dataflows.domain.fact import (
    OPEN,
    REFUSED,
    UNDECIDED,
    changed,
    integrity_error,
    parties,
    stale,
    undecided,
)
from dataflows.domain.payment_intent import advance
from schemas.records import Command, ProcessorAttempt, Rejection

_CHARGES: Final = frozenset({"authorize", "purchase"})  # kinds of which an intent may have one live
_TAKES_MONEY: Final = frozenset({"purchase", "capture"})


def decide_outcome(payment: Payment, command: Command, context: Context) -> Decision | Rejection:
    """The state after a fact about one attempt."""
    fact: dict[str, Any] = command.payload
    attempt = payment.attempts.get(fact["attempt"])
    if attempt is None or attempt.operation_id != fact["operation_id"]:
        return Rejection("not_found", "No such attempt.", {})
    if attempt.kind == "refund":
        return refund_outcome.decide_outcome(payment, attempt, command, context)
    status: str = fact["status"]
    if attempt.status not in OPEN:
        return _contradiction(payment, attempt, fact, context)
    if status in UNDECIDED:
        return undecided(payment, attempt, fact, context)
    if status in REFUSED:
        return _refused(payment, attempt, fact, context)
    return _succeeded(payment, attempt, fact, context)


def _refused(payment: Payment, attempt: ProcessorAttempt, fact: dict[str, Any], context: Context) -> Decision:
    """A definitive no: a charge may be tried again with another method, a capture or void from the hold."""
    code = fact["error_code"] or fact["status"]
    after = changed(attempt, context, status=fact["status"], error_code=code, provider_ref=fact["provider_ref"])
    intent = advance(payment.intent, context, state=_after_refusal(payment, attempt), last_payment_error=code)
    if attempt.kind == "void":  # the hold stands, so nothing was canceled
        intent.cancellation_reason = None
    return Decision(intent=intent, attempt=after)


def _after_refusal(payment: Payment, attempt: ProcessorAttempt) -> str:
    if attempt.kind in _CHARGES:
        return "requires_payment_method"
    # a late capture may have used the hold
    return "requires_capture" if payment.intent.amount_capturable else "succeeded"


def _succeeded(
    payment: Payment, attempt: ProcessorAttempt, fact: dict[str, Any], context: Context
) -> Decision | Rejection:
    mismatch = integrity_error(attempt, fact)
    if mismatch:  # the processor did something else: people decide, nothing is posted
        if attempt.status == "manual_review":
            return stale(attempt)
        after = changed(
            attempt, context, status="manual_review", error_code=mismatch, provider_ref=fact["provider_ref"]
        )
        return Decision(intent=advance(payment.intent, context, last_payment_error=mismatch), attempt=after)
    after = changed(attempt, context, status=fact["status"], error_code=None, provider_ref=fact["provider_ref"])
    return _EFFECTS[attempt.kind](payment, after, context)


def _authorized(payment: Payment, attempt: ProcessorAttempt, context: Context) -> Decision:
    intent = advance(
        payment.intent,
        context,
        state="requires_capture",
        amount_capturable=attempt.amount,
        last_payment_error=None,
    )
    posting = ledger.authorize(attempt.operation_id, attempt.amount, parties(payment, attempt))
    return Decision(intent=intent, attempt=attempt, postings=(posting,))


def _purchased(payment: Payment, attempt: ProcessorAttempt, context: Context) -> Decision:
    before = payment.intent
    intent = advance(
        before,
        context,
        state="canceled" if before.state == "canceled" else "succeeded",
        amount_received=before.amount_received + attempt.amount,
        amount_pending=before.amount_pending + context.fees.merchant_share(attempt.amount),
        last_payment_error=None,
    )
    posting = ledger.capture(attempt.operation_id, attempt.amount, 0, parties(payment, attempt), context.fees)
    return _taken(payment, Decision(intent=intent, attempt=attempt, postings=(posting,)), context)


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
        amount_pending=before.amount_pending + context.fees.merchant_share(attempt.amount),
        last_payment_error=None,
    )
    released = before.amount_capturable - left
    posting = ledger.capture(attempt.operation_id, attempt.amount, released, parties(payment, attempt), context.fees)
    return _taken(payment, Decision(intent=intent, attempt=attempt, postings=(posting,)), context)


def _taken(payment: Payment, captured: Decision, context: Context) -> Decision:
    """Money of a canceled payment goes back by itself, in the commit that learned of it."""
    return captured if captured.intent.state != "canceled" else refund.given_back(payment, captured, context)


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
    posting = ledger.void(attempt.operation_id, before.amount_capturable, parties(payment, attempt))
    return Decision(intent=intent, attempt=attempt, postings=(posting,))


_EFFECTS: Final = {"authorize": _authorized, "purchase": _purchased, "capture": _captured, "void": _voided}


def _contradiction(
    payment: Payment, attempt: ProcessorAttempt, fact: dict[str, Any], context: Context
) -> Decision | Rejection:
    """A late fact about an attempt that was already definitive. Money facts win over a refusal, once."""
    if attempt.status not in REFUSED or attempt.kind not in _TAKES_MONEY or fact["status"] != "captured":
        return stale(attempt)
    if integrity_error(attempt, fact):
        return Rejection("contradicts_attempt", "The processor took another amount than was asked of it.", {})
    another_lives = any(a.kind in _CHARGES and a.status not in REFUSED for a in payment.attempts.values())
    if attempt.kind == "purchase" and another_lives:
        return Rejection(
            "contradicts_attempt",
            "The processor charged an attempt that it had refused, and another one is live.",
            {},
        )
    after = changed(attempt, context, status="captured", error_code=None, provider_ref=fact["provider_ref"])
    return (_purchased if attempt.kind == "purchase" else _captured_late)(payment, after, context)
