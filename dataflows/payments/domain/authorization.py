"""Holds on cards: how a hold grows, is released, and ends by itself.

The attempt that authorized keeps that status for ever. ``amount_capturable`` is what is left of its hold, and its error
code says why the processor let it end. Only a processor ends a hold: when its time is over we ask for a void, and
nothing is ever released on our side alone. Source: reference states 3.1, postings 3.5.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs

from dataflows.payments.domain.decision import Context, Decision, Payment
from dataflows.payments.domain.fact import OPEN, changed, parties, stale
from dataflows.payments.domain.ledger import ledger
from dataflows.payments.domain.payment_intent import (
    advance,
    authorization,
    new_attempt,
    no_further_attempt,
    wrong_state,
)
from schemas.payments import limits
from schemas.payments.records import AttemptKind, IntentState, PaymentIntent, ProcessorAttempt
from schemas.records import Command, Rejection

EXPIRED: Final = "expired"  # error code of an attempt, cancellation reason of an intent
_RELEASED: Final = "released_by_processor"  # the same, if the processor does not call it expired
_HOLDING: Final = frozenset({"requires_capture", "canceled"})  # canceled: we heard of the hold too late
_SECOND_US: Final = 1_000_000


def decide_increment(payment: Payment, command: Command, context: Context) -> Decision | Rejection:
    """Starts an attempt to hold more; ``amount`` is the new total. If it is refused, the hold stays as it is."""
    intent = payment.intent
    if intent.state != "requires_capture":
        return wrong_state(intent, "authorized for more")
    total: Any = command.payload["amount"]
    if total <= intent.amount:
        return Rejection("amount_not_higher", f"Give a total above {intent.amount}.", {"authorized": intent.amount})
    if refusal := no_further_attempt(intent):
        return refusal
    return _started(payment, intent, context, "increment", total - intent.amount)


def decide_expire(payment: Payment, command: Command, context: Context) -> Decision | Rejection:
    """Starts an attempt to release a hold whose time is over by our clock; the processor carries it out."""
    intent, held, told = payment.intent, authorization(payment), command.payload
    until: Any = told["authorized_until"]
    is_this_hold = held is not None and held.operation_id == told["operation_id"] and intent.authorized_until == until
    if not is_this_hold or context.now < until:
        return Rejection("stale_fact", "This hold has ended, or ends at another time.", {})
    is_releasing = any(a.kind == "void" and a.status in OPEN for a in payment.attempts.values())
    if intent.state not in _HOLDING or not intent.amount_capturable or is_releasing:
        return Rejection("stale_fact", "There is nothing to release now.", {"current_state": intent.state})
    if intent.state == "canceled":
        return _started(payment, intent, context, "void", intent.amount_capturable, state="canceled")
    changed_intent = structs.replace(intent, cancellation_reason=EXPIRED)
    return _started(payment, changed_intent, context, "void", intent.amount_capturable)


def authorized(payment: Payment, attempt: ProcessorAttempt, fact: dict[str, Any], context: Context) -> Decision:
    """The hold stands until the processor's time. On a canceled payment it is given up at once."""
    before = payment.intent
    posting = ledger.authorize(attempt.operation_id, attempt.amount, parties(payment, attempt))
    intent = advance(
        before,
        context,
        state="canceled" if before.state == "canceled" else "requires_capture",
        amount_capturable=attempt.amount,
        authorized_until=fact.get("authorized_until") or context.now + limits.AUTHORIZATION_VALID_S * _SECOND_US,
        next_action=None,
        last_payment_error=None,
    )
    if before.state != "canceled":
        return Decision(intent=intent, attempt=attempt, postings=(posting,))
    void = new_attempt(intent, context, "void", attempt.amount, parent=attempt, final=True)
    intent.latest_attempt = void.attempt
    return Decision(intent=intent, attempt=void, caused_by=attempt, postings=(posting,))


def incremented(payment: Payment, attempt: ProcessorAttempt, _: dict[str, Any], context: Context) -> Decision:
    """More is held, unless the hold has ended since; then the increment has ended with it."""
    before, held, sides = payment.intent, authorization(payment), parties(payment, attempt)
    posting = ledger.authorize(attempt.operation_id, attempt.amount, sides)
    grown = advance(before, context, amount=before.amount + attempt.amount, last_payment_error=None)
    if held is not None and held.error_code is not None:
        grown.state = state_without_hold(before)
        give_reason(before, grown, held.error_code)
        ended = ledger.expire(attempt.operation_id, attempt.amount, sides)
        return Decision(intent=grown, attempt=attempt, postings=(posting, ended), amended=True)
    grown.state = "requires_capture"
    grown.amount_capturable += attempt.amount
    return Decision(intent=grown, attempt=attempt, postings=(posting,), amended=True)


def voided(payment: Payment, attempt: ProcessorAttempt, _: dict[str, Any], context: Context) -> Decision:
    """The hold is released, because the merchant asked for it or its time was over."""
    before = payment.intent
    intent = advance(
        before,
        context,
        state=state_without_hold(before),
        amount_capturable=0,
        authorized_until=None,
        last_payment_error=None,
    )
    if not before.amount_capturable:  # a late capture used the hold up; there is nothing to release
        return Decision(intent=intent, attempt=attempt)
    posting = ledger.void(attempt.operation_id, before.amount_capturable, parties(payment, attempt))
    return Decision(intent=intent, attempt=attempt, postings=(posting,))


def decide_released(
    payment: Payment, attempt: ProcessorAttempt, fact: dict[str, Any], context: Context
) -> Decision | Rejection:
    """The processor let the hold of an authorization end. If we hear this first, it also tells of the authorization.

    An attempt under way on the hold goes on: the processor will tell its outcome, too.
    """
    before, is_heard_of = payment.intent, attempt.status == "authorized"
    if is_heard_of and attempt.error_code is not None:
        return stale(attempt)
    sides = parties(payment, attempt)
    left = before.amount_capturable if is_heard_of else attempt.amount
    postings = () if is_heard_of else (ledger.authorize(attempt.operation_id, attempt.amount, sides),)
    if left:
        postings = (*postings, ledger.expire(attempt.operation_id, left, sides))
    code = EXPIRED if fact["error_code"] == EXPIRED else _RELEASED
    is_under_way = is_heard_of and before.state == "processing"
    intent = advance(
        before,
        context,
        state="processing" if is_under_way else state_without_hold(before),
        amount_capturable=0,
        authorized_until=None,
        next_action=None,
    )
    give_reason(before, intent, code)
    ended = changed(attempt, context, status="authorized", error_code=code, provider_ref=fact["provider_ref"])
    return Decision(intent=intent, attempt=ended, postings=postings)


def state_without_hold(intent: PaymentIntent) -> IntentState:
    """The state of a payment after its hold has ended: captured money stays, and canceled stays canceled."""
    return "succeeded" if intent.amount_received and intent.state != "canceled" else "canceled"


def give_reason(before: PaymentIntent, after: PaymentIntent, reason: str) -> None:
    """Gives the reason why the end of a hold canceled a payment, unless somebody canceled it with a reason."""
    if after.state == "canceled" and before.state != "canceled" and after.cancellation_reason is None:
        after.cancellation_reason = reason


def _started(
    payment: Payment,
    intent: PaymentIntent,
    context: Context,
    kind: AttemptKind,
    amount: int,
    *,
    state: IntentState = "processing",
) -> Decision:
    attempt = new_attempt(intent, context, kind, amount, parent=authorization(payment), final=True)
    return Decision(intent=advance(intent, context, state=state, latest_attempt=attempt.attempt), attempt=attempt)
