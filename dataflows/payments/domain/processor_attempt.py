"""Facts about processor attempts: what the outside world did, decided once, through whatever door they came.

Rule: while the outcome of a charge, capture or void is unknown, no other of these exists (spec 1 section 3). Refunds
run beside them and are decided in ``refund_outcome``. A fact that says nothing new is refused as ``stale_fact`` and
changes nothing. Source: reference states 3.1 and 3.2, postings 3.5.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs

from dataflows.payments.domain import authorization, dispute_evidence, refund, refund_outcome, routing
from dataflows.payments.domain.decision import Context, Decision, Payment
from dataflows.payments.domain.fact import (
    MOVES_MONEY,
    OPEN,
    REFUSED,
    UNDECIDED,
    action_over,
    changed,
    contradiction,
    integrity_error,
    parties,
    stale,
    undecided,
)
from dataflows.payments.domain.ledger import ledger
from dataflows.payments.domain.payment_intent import advance, fail_over
from dataflows.payments.domain.routing import CHARGES
from schemas.payments import vouched
from schemas.payments.records import IntentState, PaymentIntent, ProcessorAttempt
from schemas.records import Command, Rejection

_GONE: Final = REFUSED | {"blocked"}  # a charge in these states allows another one
_TAKES_MONEY: Final = frozenset({"purchase", "capture"})


def decide_outcome(payment: Payment, command: Command, context: Context) -> Decision | Rejection:
    """The state after a fact about one attempt."""
    fact: dict[str, Any] = command.payload
    attempt = payment.attempts.get(fact["attempt"])
    if attempt is None or attempt.operation_id != fact["operation_id"]:
        return Rejection("not_found", "No such attempt.", {})
    elsewhere = _DECIDED_ELSEWHERE.get(attempt.kind)
    if elsewhere is not None:
        return elsewhere(payment, attempt, command, context)
    if _is_release(attempt, fact):
        return authorization.decide_released(payment, attempt, fact, context)
    if attempt.status in OPEN:
        return _about_open(payment, attempt, fact, context)
    return _contradiction(payment, attempt, fact, context, is_vouched_for=vouched.is_vouched_for(command))


_DECIDED_ELSEWHERE: Final = {"refund": refund_outcome.decide_outcome, "evidence": dispute_evidence.decide_outcome}


def _about_open(
    payment: Payment, attempt: ProcessorAttempt, fact: dict[str, Any], context: Context
) -> Decision | Rejection:
    status: str = fact["status"]
    if status in UNDECIDED:
        return undecided(payment, attempt, fact, context)
    if status in REFUSED:
        return _refused(payment, attempt, fact, context)
    return _succeeded(payment, attempt, fact, context)


def _refused(payment: Payment, attempt: ProcessorAttempt, fact: dict[str, Any], context: Context) -> Decision:
    """A definitive refusal.

    A charge goes on at another processor if the rules say so; otherwise it may be confirmed again with another method.
    A capture or void may be tried again from the hold.
    """
    code = fact["error_code"] or fact["status"]
    after = changed(attempt, context, status=fact["status"], error_code=code, provider_ref=fact["provider_ref"])
    if attempt.kind in CHARGES and context.policies.routing.version and payment.intent.state != "canceled":
        further = routing.failover(context, payment, attempt, after)
        if further is not None:
            return fail_over(payment, after, further, context)
    state = _after_refusal(payment.intent, attempt)
    intent = advance(payment.intent, context, state=state, next_action=None, last_payment_error=code)
    authorization.give_reason(payment.intent, intent, authorization.EXPIRED)
    if attempt.kind == "void" and state != "canceled":  # the hold stands, so nothing was canceled
        intent.cancellation_reason = None
    return Decision(intent=intent, attempt=after)


def _after_refusal(intent: PaymentIntent, attempt: ProcessorAttempt) -> IntentState:
    if intent.state == "canceled":
        return "canceled"
    if attempt.kind in CHARGES:
        return "requires_payment_method"
    # a late capture may have used the hold, or its time may be over
    return "requires_capture" if intent.amount_capturable else authorization.state_without_hold(intent)


def _is_release(attempt: ProcessorAttempt, fact: dict[str, Any]) -> bool:
    """Whether a hold ended by itself. Of a hold that we never heard of, only a complete expiry is believed."""
    if attempt.kind != "authorize" or fact["status"] != "voided":
        return False
    if attempt.status == "authorized":
        return True
    is_whole = (fact["amount"], fact["currency"]) == (attempt.amount, attempt.currency)
    return attempt.status in OPEN and is_whole and fact["error_code"] == authorization.EXPIRED


def _succeeded(
    payment: Payment, attempt: ProcessorAttempt, fact: dict[str, Any], context: Context
) -> Decision | Rejection:
    mismatch = integrity_error(attempt, fact) or ("hold_exceeded" if _is_beyond_hold(payment, attempt) else None)
    if mismatch:  # the processor did something else: a person decides, nothing is posted
        if attempt.status == "manual_review":
            return stale(attempt)
        after = changed(
            attempt, context, status="manual_review", error_code=mismatch, provider_ref=fact["provider_ref"]
        )
        intent = action_over(advance(payment.intent, context, last_payment_error=mismatch))
        return Decision(intent=intent, attempt=after)
    after = changed(attempt, context, status=fact["status"], error_code=None, provider_ref=fact["provider_ref"])
    return _EFFECTS[attempt.kind](payment, after, fact, context)


def _purchased(payment: Payment, attempt: ProcessorAttempt, _: dict[str, Any], context: Context) -> Decision:
    before = payment.intent
    intent = advance(
        before,
        context,
        state="canceled" if before.state == "canceled" else "succeeded",
        processor=attempt.processor,  # of several that were tried, this one took the money
        amount_received=before.amount_received + attempt.amount,
        amount_pending=before.amount_pending + context.fees.merchant_share(attempt.amount),
        next_action=None,
        last_payment_error=None,
    )
    posting = ledger.capture(attempt.operation_id, attempt.amount, 0, parties(payment, attempt), context.fees)
    return _taken(payment, Decision(intent=intent, attempt=attempt, postings=(posting,)), context)


def _captured(payment: Payment, attempt: ProcessorAttempt, _: dict[str, Any], context: Context) -> Decision:
    left = 0 if attempt.final else max(0, payment.intent.amount_capturable - attempt.amount)
    return _taken_from_hold(payment, attempt, context, left, "requires_capture" if left else "succeeded")


def _captured_late(payment: Payment, attempt: ProcessorAttempt, fact: dict[str, Any], context: Context) -> Decision:
    """Money of a capture that had been refused. Another attempt may be under way and goes on."""
    before = payment.intent
    left = max(0, before.amount_capturable - attempt.amount)
    if before.state != "requires_capture":
        return _taken_from_hold(payment, attempt, context, left, before.state)
    return _captured(payment, attempt, fact, context)


def _taken_from_hold(payment: Payment, attempt: ProcessorAttempt, context: Context, left: int, state: str) -> Decision:
    before = payment.intent
    intent = advance(
        before,
        context,
        state=state,
        amount_capturable=left,
        authorized_until=before.authorized_until if left else None,
        amount_received=before.amount_received + attempt.amount,
        amount_pending=before.amount_pending + context.fees.merchant_share(attempt.amount),
        last_payment_error=None,
    )
    released = before.amount_capturable - left
    posting = ledger.capture(attempt.operation_id, attempt.amount, released, parties(payment, attempt), context.fees)
    return _taken(payment, Decision(intent=intent, attempt=attempt, postings=(posting,)), context)


def _taken(payment: Payment, captured: Decision, context: Context) -> Decision:
    """Money of a canceled payment goes back by itself, in the commit that learned of it."""
    if captured.intent.state != "canceled":
        return captured
    return refund.given_back(payment, captured, context, refund.CANCELED)


_EFFECTS: Final = {
    "authorize": authorization.authorized,
    "purchase": _purchased,
    "increment": authorization.incremented,
    "capture": _captured,
    "void": authorization.voided,
}


def _contradiction(
    payment: Payment, attempt: ProcessorAttempt, fact: dict[str, Any], context: Context, *, is_vouched_for: bool
) -> Decision | Rejection:
    """A late fact about a definitive attempt. A capture wins over its refusal, once.

    Any other fact about money that does not fit is a contradiction, a case for people, and never just stale. Money that
    two persons vouch for is posted beside another live charge, and given back.
    """
    status = fact["status"]
    if status not in MOVES_MONEY or status == attempt.status:
        return _named_later(payment, attempt, fact, context) or stale(attempt)
    is_second = attempt.kind in CHARGES and any(_is_live_charge(a) for a in payment.attempts.values())
    if is_second and not is_vouched_for:
        return contradiction(f"The processor says {status}, of an attempt that is {attempt.status}; a charge is live.")
    if why := _why_not_taken(payment, attempt, fact):
        return contradiction(why)
    after = changed(attempt, context, status="captured", error_code=None, provider_ref=fact["provider_ref"])
    if is_second:
        return _purchased_twice(payment, after, context)
    return (_purchased if attempt.kind == "purchase" else _captured_late)(payment, after, fact, context)


def _why_not_taken(payment: Payment, attempt: ProcessorAttempt, fact: dict[str, Any]) -> str | None:
    """The reason why a late fact does not show that a refused attempt took its money after all."""
    if attempt.status not in REFUSED or attempt.kind not in _TAKES_MONEY or fact["status"] != "captured":
        return f"The processor says {fact['status']}, of an attempt that is {attempt.status}."
    if integrity_error(attempt, fact):
        return "The processor took another amount than was asked of it."
    if _is_beyond_hold(payment, attempt):
        return "The processor took more than it ever held."
    return None


def _is_beyond_hold(payment: Payment, attempt: ProcessorAttempt) -> bool:
    """Whether a capture took money that another one has taken since: one of the two is not what the processor did."""
    intent = payment.intent
    return attempt.kind == "capture" and intent.amount_received + attempt.amount > intent.amount


def _named_later(
    payment: Payment, attempt: ProcessorAttempt, fact: dict[str, Any], context: Context
) -> Decision | None:
    """Adds the processor's name to a success that lacked it: without the name nothing can be done with the money."""
    is_new = attempt.provider_ref is None and fact["provider_ref"] is not None
    if not is_new or fact["status"] != attempt.status or integrity_error(attempt, fact):
        return None
    return Decision(
        intent=advance(payment.intent, context), attempt=changed(attempt, context, provider_ref=fact["provider_ref"])
    )


def _is_live_charge(attempt: ProcessorAttempt) -> bool:
    """Whether it pays, or may still pay, for the payment: at most one attempt of a payment does (invariant 9)."""
    is_second = attempt.kind == "purchase" and not attempt.final
    return attempt.kind in CHARGES and attempt.status not in _GONE and not is_second


def _purchased_twice(payment: Payment, attempt: ProcessorAttempt, context: Context) -> Decision:
    """Money taken beside a live charge, which goes on: posted, and given back in the same commit."""
    before = payment.intent
    intent = advance(
        before,
        context,
        amount_received=before.amount_received + attempt.amount,
        amount_pending=before.amount_pending + context.fees.merchant_share(attempt.amount),
    )
    posting = ledger.capture(attempt.operation_id, attempt.amount, 0, parties(payment, attempt), context.fees)
    taken = Decision(intent=intent, attempt=structs.replace(attempt, final=False), postings=(posting,))
    return refund.given_back(payment, taken, context, refund.TWICE)
