"""Refunds: money on its way back to the payer, capped by what was received, never by what a caller believes.

An attempt of kind ``refund`` carries a refund out; several may be under way, also beside captures. ``refund_outcome``
decides what becomes of it. A refund never changes the state of the intent. Source: reference 3.1 and 3.3.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs

from dataflows.payments.domain.decision import Context, Decision, Payment, applied
from dataflows.payments.domain.fact import changed, parties
from dataflows.payments.domain.ledger import ledger
from dataflows.payments.domain.payment_intent import advance, new_attempt, no_further_attempt
from schemas import identity
from schemas.payments.operations import OPERATIONS
from schemas.payments.records import PaymentIntent, ProcessorAttempt, Refund, RefundPendingReason, RefundState
from schemas.records import Command, Rejection
from schemas.refusals import wrong_value

#: reasons of refunds that the platform makes by itself
CANCELED: Final = "payment_canceled"
TWICE: Final = "charged_twice"
_ON_ITS_WAY: Final[RefundPendingReason] = "processing"  # the reason of a pending refund of which nothing else is known
#: refunds that count against what was received
ACTIVE: Final = frozenset({"pending", "requires_action", "succeeded"})
_TEMPLATE: Final = OPERATIONS["create_refund"].template


def decide_create(payment: Payment, command: Command, context: Context) -> Decision | Rejection:
    """Refunds what was received and is neither refunded nor disputed; all of it if no amount is given."""
    intent, wanted = payment.intent, command.payload
    if wanted["payment_intent"] != intent.id:
        return wrong_value("payload.payment_intent", "must be the payment that it was sent to")
    if not intent.amount_received:
        return Rejection(
            "state_conflict",
            f"An intent that is {intent.state} has received nothing to refund.",
            {"current_state": intent.state, "current_version": intent.version},
        )
    if refusal := no_further_attempt(intent):
        return refusal
    left = refundable(payment)
    at_once = min(left, max(_rooms(payment).values()))
    asked: Any = wanted["amount"]
    amount = left if asked is None else asked
    if not 0 < amount <= at_once:
        why = "." if at_once == left else f" at once, of {left}: a refund works on one capture."
        return Rejection(
            "amount_exceeds_refundable", f"At most {at_once} can be refunded{why}", {"refundable": at_once}
        )
    metadata: Any = wanted["metadata"]
    reason: Any = wanted["reason"]
    refund_id = identity.part_id("re", intent.id, command.scope, _TEMPLATE, command.idempotency_key)
    parent = _parent(payment, amount)
    return _started(payment, advance(intent, context), context, refund_id, amount, reason, metadata, parent=parent)


def decide_cancel(payment: Payment, command: Command, context: Context) -> Decision | Rejection:
    """Ends a refund that waits for somebody. A pending one may be on its way, so it cannot be called back."""
    refund_id: Any = command.payload["refund"]
    refund = payment.refunds.get(refund_id)
    if refund is None:
        return Rejection("not_found", "No such object.", {})
    if refund.state != "requires_action":
        return Rejection(
            "state_conflict",
            f"A refund that is {refund.state} cannot be canceled.",
            {"current_state": refund.state, "current_version": refund.version},
        )
    attempt = payment.attempts[refund.attempt]
    ended = changed(attempt, context, status="failed", error_code="canceled")
    return money_back(payment, refund, ended, context, state="canceled", reason=None)


def refundable(payment: Payment) -> int:
    """What may still be refunded: received, less refunded or on its way, less disputed."""
    return max(0, payment.intent.amount_received - committed(payment) - payment.intent.amount_disputed)


def given_back(payment: Payment, captured: Decision, context: Context, reason: str) -> Decision:
    """A late capture that nobody wants, and the refund of all of it, in the same commit."""
    after, attempt = applied(payment, captured), captured.attempt
    amount = 0 if attempt is None else min(attempt.amount, refundable(after))
    if attempt is None or not amount:
        return captured
    refund_id = identity.part_id("re", payment.intent.id, reason, attempt.operation_id)
    started = _started(after, captured.intent, context, refund_id, amount, reason, {}, parent=attempt)
    return structs.replace(started, caused_by=attempt, postings=(*captured.postings, *started.postings))


def committed(payment: Payment) -> int:
    """The sum of refunds that count."""
    return sum(r.amount for r in payment.refunds.values() if r.state in ACTIVE)


def _started(
    payment: Payment,
    intent: PaymentIntent,
    context: Context,
    refund_id: str,
    amount: int,
    reason: str | None,
    metadata: dict[str, str],
    *,
    parent: ProcessorAttempt,
) -> Decision:
    """A pending refund with its attempt; ``intent`` is the payment's, one version on, ``parent`` the capture."""
    attempt = new_attempt(intent, context, "refund", amount, parent=parent, final=False)
    from_pending = min(amount, intent.amount_pending)
    refund = Refund(
        id=refund_id,
        intent_id=intent.id,
        merchant_id=intent.merchant_id,
        attempt=attempt.attempt,
        amount=amount,
        currency=intent.currency,
        state="pending",
        reason=reason,
        failure_reason=None,
        from_pending=from_pending,
        metadata=metadata,
        version=1,
        created_at=context.now,
        updated_at=context.now,
        pending_reason=_ON_ITS_WAY,
    )
    return Decision(
        intent=structs.replace(
            intent, latest_attempt=attempt.attempt, amount_pending=intent.amount_pending - from_pending
        ),
        attempt=attempt,
        refund=refund,
        postings=(ledger.refund_created(refund_id, amount, from_pending, parties(payment, attempt)),),
    )


def _parent(payment: Payment, amount: int) -> ProcessorAttempt:
    """The first capture with room for the whole refund; ``decide_create`` has made sure that there is one."""
    rooms = _rooms(payment)
    return next(capture for capture in _captures(payment) if rooms[_name(capture)] >= amount)


def _rooms(payment: Payment) -> dict[tuple[str, str | None], int]:
    """What may be refunded of each capture; several with one name at the processor count as one."""
    rooms: dict[tuple[str, str | None], int] = {}
    for capture in _captures(payment):
        rooms[_name(capture)] = rooms.get(_name(capture), 0) + capture.amount
    for refund in payment.refunds.values():
        attempt = payment.attempts[refund.attempt]
        name = (attempt.processor, attempt.parent_ref)
        if refund.state in ACTIVE and name in rooms:
            rooms[name] -= refund.amount
    return rooms


def _name(capture: ProcessorAttempt) -> tuple[str, str | None]:
    return capture.processor, capture.provider_ref


def _captures(payment: Payment) -> list[ProcessorAttempt]:
    return [a for _, a in sorted(payment.attempts.items()) if a.status == "captured"]


def money_back(
    payment: Payment,
    refund: Refund,
    ended: ProcessorAttempt,
    context: Context,
    *,
    state: RefundState,
    reason: str | None,
) -> Decision:
    """Returns what was set aside for a refund to where it came from, unless that has matured meanwhile."""
    to_pending = back_to_pending(payment, refund, context)
    reference = f"{ended.operation_id}:refund_{state}"
    posting = ledger.refund_failed(reference, f"refund_{state}", refund.amount, to_pending, parties(payment, ended))
    return Decision(
        intent=advance(payment.intent, context, amount_pending=payment.intent.amount_pending + to_pending),
        attempt=ended,
        refund=refund_changed(refund, context, state=state, failure_reason=reason),
        postings=(posting,),
    )


def fee_back(payment: Payment, context: Context, before: int, after: int) -> int:
    """The platform's fee that is returned when the sum of succeeded refunds grows from ``before`` to ``after``."""
    return context.fees.returned_fee(before, after, (a.amount for a in _captures(payment)))


def back_to_pending(payment: Payment, refund: Refund, context: Context) -> int:
    """The part of the returned money that a later settlement will mature: never more than is unsettled."""
    unsettled = sum(context.fees.merchant_share(a.amount) for a in _captures(payment) if a.settled_line is None)
    return max(0, min(refund.from_pending, unsettled - payment.intent.amount_pending))


def refund_changed(refund: Refund, context: Context, **changes: object) -> Refund:
    """The refund one version on. It has a ``pending_reason`` exactly while it is pending."""
    after = structs.replace(refund, version=refund.version + 1, updated_at=context.now, **changes)
    after.pending_reason = (after.pending_reason or _ON_ITS_WAY) if after.state == "pending" else None
    return after
