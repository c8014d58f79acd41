"""Decides what becomes of a refund, by facts of its attempt, from any door and in any order.

What is known of a refund only grows (source: reference 3.3, trap 6): open < failed < refunded < failed after it had
succeeded. The fact identity ``{operation_id}:failed_later`` tells the last, or a plain "failed" about a refund that is
known to have succeeded; it is final, and the attempt is marked so.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs

from dataflows.payments.domain.decision import Context, Decision, Payment
from dataflows.payments.domain.fact import (
    MOVES_MONEY,
    OPEN,
    REFUSED,
    SUCCESS,
    UNDECIDED,
    changed,
    contradiction,
    integrity_error,
    parties,
    stale,
    undecided,
)
from dataflows.payments.domain.ledger import ledger
from dataflows.payments.domain.payment_intent import advance
from dataflows.payments.domain.refund import back_to_pending, committed, fee_back, money_back, refund_changed
from schemas.payments.facts import FAILED_LATER, outcome_key, pending_key
from schemas.payments.records import ProcessorAttempt, Refund, RefundState
from schemas.records import Command, Rejection

_FAILURE_REASONS: Final = {
    reason: reason
    for reason in (
        *("lost_or_stolen_card", "expired_or_canceled_card", "insufficient_funds", "declined"),
        *("charge_for_pending_refund_disputed", "merchant_request"),
    )
} | {
    "lost_card": "lost_or_stolen_card",
    "stolen_card": "lost_or_stolen_card",
    "expired_card": "expired_or_canceled_card",
    "canceled_card": "expired_or_canceled_card",
    "card_declined": "declined",
    "do_not_honor": "declined",
    "charge_disputed": "charge_for_pending_refund_disputed",
}


def decide_outcome(
    payment: Payment, attempt: ProcessorAttempt, command: Command, context: Context
) -> Decision | Rejection:
    """The state after a fact about the attempt of a refund."""
    fact: dict[str, Any] = command.payload
    status: str = fact["status"]
    refund = next(r for r in payment.refunds.values() if r.attempt == attempt.attempt)
    told_later = command.idempotency_key == outcome_key(attempt.operation_id, FAILED_LATER)
    is_over = attempt.status == "failed" and attempt.final  # it failed after it had succeeded, which is the last state
    if status == "failed" and not is_over and (told_later or attempt.status == "refunded"):
        return _failed_after_success(payment, refund, attempt, fact, context)
    is_success = status not in UNDECIDED and status not in REFUSED
    if status in MOVES_MONEY and status != SUCCESS["refund"] and attempt.status not in OPEN:
        return contradiction(f"The processor says {status}, of a refund that is {attempt.status}.")
    if is_over or attempt.status == "refunded" or (attempt.status not in OPEN and not is_success):
        return stale(attempt)
    if status in UNDECIDED:
        said_then = command.idempotency_key == pending_key(attempt.operation_id, fact.get("pending_reason"))
        return _undecided(payment, refund, attempt, fact, context, said_then=said_then)
    if status in REFUSED:
        return _failed(payment, refund, attempt, fact, context)
    return (_succeeded if attempt.status in OPEN else _succeeded_late)(payment, refund, attempt, fact, context)


def _undecided(
    payment: Payment,
    refund: Refund,
    attempt: ProcessorAttempt,
    fact: dict[str, Any],
    context: Context,
    *,
    said_then: bool,
) -> Decision | Rejection:
    """The refund waits for the payer exactly while its attempt does, and counts against the cap meanwhile.

    ``said_then``: the fact may be late, so it does not end a wait for the payer, which may be newer.
    """
    if said_then and attempt.status == "requires_action":
        return stale(attempt)
    reason = fact.get("pending_reason") if fact["status"] == "pending" else None
    if attempt.status == "pending" and reason not in (None, refund.pending_reason):
        after = refund_changed(refund, context, pending_reason=reason)
        told = changed(attempt, context, provider_ref=fact["provider_ref"])
        return Decision(intent=advance(payment.intent, context), attempt=told, refund=after)
    doubt = undecided(payment, attempt, fact, context)
    if isinstance(doubt, Rejection) or doubt.attempt is None:
        return doubt
    state: RefundState = "requires_action" if doubt.attempt.status == "requires_action" else "pending"
    if state == refund.state and reason in (None, refund.pending_reason):
        return doubt
    known = {} if reason is None else {"pending_reason": reason}
    return structs.replace(doubt, refund=refund_changed(refund, context, state=state, **known))


def _succeeded(
    payment: Payment, refund: Refund, attempt: ProcessorAttempt, fact: dict[str, Any], context: Context
) -> Decision | Rejection:
    if mismatch := integrity_error(attempt, fact):
        if attempt.status == "manual_review":
            return stale(attempt)
        review = changed(
            attempt, context, status="manual_review", error_code=mismatch, provider_ref=fact["provider_ref"]
        )
        waiting = refund_changed(refund, context, state="pending") if refund.state == "requires_action" else None
        return Decision(intent=advance(payment.intent, context), attempt=review, refund=waiting)
    before = payment.intent.amount_refunded
    fee = fee_back(payment, context, before, before + refund.amount)
    return Decision(
        intent=advance(payment.intent, context, amount_refunded=before + refund.amount),
        attempt=changed(attempt, context, status="refunded", error_code=None, provider_ref=fact["provider_ref"]),
        refund=refund_changed(refund, context, state="succeeded", failure_reason=None),
        postings=(ledger.refund_succeeded(attempt.operation_id, refund.amount, fee, parties(payment, attempt)),),
    )


def _succeeded_late(
    payment: Payment, refund: Refund, attempt: ProcessorAttempt, fact: dict[str, Any], context: Context
) -> Decision | Rejection:
    """Money that moved after all wins over a failure, once, unless another refund has taken its place since."""
    intent = payment.intent
    if integrity_error(attempt, fact) or committed(payment) + refund.amount > intent.amount_received:
        return contradiction("The processor refunded what it had refused, or another amount.")
    from_pending = min(refund.amount, intent.amount_pending)
    before = intent.amount_refunded
    fee = fee_back(payment, context, before, before + refund.amount)
    posting = ledger.refund_succeeded_late(
        attempt.operation_id, refund.amount, from_pending, fee, parties(payment, attempt)
    )
    return Decision(
        intent=advance(
            intent,
            context,
            amount_refunded=before + refund.amount,
            amount_pending=intent.amount_pending - from_pending,
        ),
        attempt=changed(attempt, context, status="refunded", error_code=None, provider_ref=fact["provider_ref"]),
        refund=refund_changed(refund, context, state="succeeded", failure_reason=None, from_pending=from_pending),
        postings=(posting,),
    )


def _failed(
    payment: Payment, refund: Refund, attempt: ProcessorAttempt, fact: dict[str, Any], context: Context
) -> Decision:
    code = fact["error_code"] or fact["status"]
    ended = changed(attempt, context, status=fact["status"], error_code=code, provider_ref=fact["provider_ref"])
    return money_back(payment, refund, ended, context, state="failed", reason=failure_reason(code))


def _failed_after_success(
    payment: Payment, refund: Refund, attempt: ProcessorAttempt, fact: dict[str, Any], context: Context
) -> Decision:
    """It failed for good. If we had not heard of the success, both are posted: the ledger tells what happened."""
    code = fact["error_code"] or "unknown"
    ended = changed(attempt, context, status="failed", error_code=code, final=True, provider_ref=fact["provider_ref"])
    intent = payment.intent
    if attempt.status in REFUSED:  # the merchant already has its money
        return Decision(intent=advance(intent, context), attempt=ended)
    with_it = intent.amount_refunded + (0 if attempt.status == "refunded" else refund.amount)
    fee = fee_back(payment, context, with_it - refund.amount, with_it)
    to_pending = back_to_pending(payment, refund, context)
    sides = parties(payment, attempt)
    postings = [ledger.refund_failed_later(attempt.operation_id, refund.amount, to_pending, -fee, sides)]
    if attempt.status != "refunded":
        postings.insert(0, ledger.refund_succeeded(attempt.operation_id, refund.amount, fee, sides))
    return Decision(
        intent=advance(
            intent,
            context,
            amount_refunded=with_it - refund.amount,
            amount_pending=intent.amount_pending + to_pending,
        ),
        attempt=ended,
        refund=refund_changed(refund, context, state="failed", failure_reason=failure_reason(code)),
        postings=tuple(postings),
    )


def failure_reason(code: str) -> str:
    """The public reason for a processor's code."""
    return _FAILURE_REASONS.get(code, "unknown")
