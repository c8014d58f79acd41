"""Disputes: what a payer's bank does to a payment. Facts may come in any order, and none is taken back.

State and funds only go forward (their ranks below), and each fact is joined to what is known: the result depends on
which facts came, not on their order. A decided dispute whose money is back is won, by an appeal or because the loss was
taken back. An appeal follows a loss and takes its place; a second loss is the same fact as the first and says nothing
new. Money is posted when ``funds`` moves, never because of ``state``; only a loss of withdrawn money clears its hold,
and an appeal against it restores the hold. Source: reference 3.4 and 3.5.

A deadline for evidence belongs to the state that asks for it and ends with that state. Of several the latest holds,
whichever came first: processors extend them.

What counts as disputed, for ``intent.amount_disputed``, the cap of refunds and invariants 7 and 8: a dispute counts
while its money is, or may become, the payer's. So it counts when it needs a response, is under review (first or on
appeal), is lost, or is an inquiry whose funds were withdrawn. It does not count when it is a mere inquiry (usually
answered by a refund), won, prevented or closed.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs

from dataflows.payments.domain.decision import Context, Decision, Payment
from dataflows.payments.domain.ledger import ledger
from dataflows.payments.domain.ledger.posting import Posting
from dataflows.payments.domain.payment_intent import advance
from schemas import identity
from schemas.payments.records import Dispute, DisputeFunds, DisputeState
from schemas.records import Command, Rejection

#: an inquiry may become a dispute at any time; of two ends the worse holds, unless the money is back
STATE_RANK: Final = {
    "warning_needs_response": 1,
    "warning_under_review": 2,
    "warning_closed": 3,
    "needs_response": 4,
    "under_review": 5,
    "prevented": 6,
    "won": 7,
    "lost": 8,
    "appeal_needs_response": 9,
    "appeal_under_review": 10,
}
FUNDS_RANK: Final = {"none": 0, "withdrawn": 1, "reinstated": 2}
_LIVE: Final = frozenset({"needs_response", "under_review", "appeal_needs_response", "appeal_under_review", "lost"})
#: the states in which a processor still takes evidence
RESPONSE_DUE: Final = frozenset({"warning_needs_response", "needs_response", "appeal_needs_response"})
_INQUIRY: Final = frozenset({"warning_needs_response", "warning_under_review"})


def decide_dispute(payment: Payment, command: Command, context: Context) -> Decision | Rejection:
    """The dispute after a fact about it: the first fact makes it, later ones move it on."""
    fact: dict[str, Any] = command.payload
    intent = payment.intent
    if not intent.latest_attempt or fact["currency"] != intent.currency:
        return Rejection("contradicts_payment", "The payment was not charged in this currency.", {})
    processor = command.scope.partition(":")[2]
    dispute_id = identity.part_id("dp", intent.id, processor, fact["provider_ref"])
    known = payment.disputes.get(dispute_id)
    if known is not None and fact["amount"] != known.amount:
        return Rejection("contradicts_dispute", "The dispute is about another amount.", {"amount": known.amount})
    before = known or _unheard_of(payment, command, context, dispute_id)
    after = _joined(before, fact, context)
    if known is not None and _what_facts_say(after) == _what_facts_say(known):
        return _nothing_new(known, fact)
    others = sum(counted(d) for d in payment.disputes.values() if d.id != dispute_id)
    return Decision(
        intent=advance(intent, context, amount_disputed=others + counted(after)),
        dispute=after,
        postings=_postings(before, after),
    )


def counted(dispute: Dispute) -> int:
    """How much a dispute takes of the refundable amount, by the rule above."""
    if _is_won(dispute.state, dispute.funds):  # an earlier release kept such a loss as lost
        return 0
    counts = dispute.state in _LIVE or (dispute.state in _INQUIRY and dispute.funds == "withdrawn")
    return dispute.amount if counts else 0


def _what_facts_say(dispute: Dispute) -> tuple[str, str, int | None]:
    return dispute.state, dispute.funds, dispute.evidence_due_by


def _nothing_new(known: Dispute, fact: dict[str, Any]) -> Rejection:
    """The refusal of a fact that adds nothing; a case for people if the money may have been taken once more.

    A fact so late that its money had come back meanwhile looks the same, and is rare: neither is posted.
    """
    seen: dict[str, object] = {"state": known.state, "funds": known.funds}
    is_after_the_win = STATE_RANK[fact["status"]] > STATE_RANK["won"]
    if is_after_the_win and fact["funds"] == "withdrawn" and known.funds == "reinstated":
        return Rejection("contradicts_dispute", "The money had come back: this is late, or it was taken again.", seen)
    return Rejection("stale_fact", "The dispute already has this or a later state.", seen)


def _unheard_of(payment: Payment, command: Command, context: Context, dispute_id: str) -> Dispute:
    fact: dict[str, Any] = command.payload
    return Dispute(
        id=dispute_id,
        intent_id=payment.intent.id,
        merchant_id=payment.intent.merchant_id,
        processor=command.scope.partition(":")[2],
        provider_ref=fact["provider_ref"],
        amount=fact["amount"],
        currency=fact["currency"],
        fee=fact["fee"],
        reason=fact["reason"],
        state=fact["status"],
        funds="none",
        version=0,
        created_at=context.now,
        updated_at=context.now,
    )


def _joined(dispute: Dispute, fact: dict[str, Any], context: Context) -> Dispute:
    """The later state and the later funds of the known dispute and the fact. The fee is fixed once it is taken.

    A later stage that asks for a response (the chargeback after an inquiry, an appeal) takes its own evidence: what was
    submitted before is a draft again.
    """
    state: DisputeState = max(dispute.state, fact["status"], key=STATE_RANK.__getitem__)
    funds: DisputeFunds = max(dispute.funds, fact["funds"], key=FUNDS_RANK.__getitem__)
    state = "won" if _is_won(state, funds) else state
    is_asked_again = state in RESPONSE_DUE and state != dispute.state
    return structs.replace(
        dispute,
        state=state,
        funds=funds,
        fee=fact["fee"] if dispute.funds == "none" else dispute.fee,
        reason=dispute.reason or fact["reason"],
        version=dispute.version + 1,
        updated_at=context.now,
        evidence_due_by=_due_by(dispute, fact, state),
        evidence_state="draft" if is_asked_again and dispute.evidence_state else dispute.evidence_state,
    )


def _due_by(dispute: Dispute, fact: dict[str, Any], state: DisputeState) -> int | None:
    """The latest deadline that was said of this state; None once nothing is asked."""
    known = dispute.evidence_due_by if dispute.state == state else None
    said = fact.get("evidence_due_by") if fact["status"] == state else None  # older commands say nothing of it
    found = [due for due in (known, said) if due is not None]
    return max(found) if found and state in RESPONSE_DUE else None


def _is_won(state: DisputeState, funds: DisputeFunds) -> bool:
    """Whether the dispute was decided, in whatever way, and the money is back."""
    return funds == "reinstated" and STATE_RANK[state] >= STATE_RANK["won"]


def _postings(before: Dispute, after: Dispute) -> tuple[Posting, ...]:
    """The postings between the two: withdrawn before reinstated, whichever came first; a loss where the hold is."""
    sides = ledger.Parties(after.processor, after.merchant_id, after.currency)
    found: list[Posting] = []
    if before.funds == "none" and after.funds != "none":
        found.append(ledger.dispute_withdrawn(after.id, after.amount, after.fee, sides))
    if before.funds != "reinstated" and after.funds == "reinstated":
        found.append(ledger.dispute_reinstated(after.id, after.amount, sides, after_loss=_is_cleared(before)))
    if _is_cleared(after):  # and it was not cleared before, or nothing would have changed
        found.append(ledger.dispute_lost(after.id, after.amount, sides))
    if _is_cleared(before) and after.funds == "withdrawn":  # an appeal: no other state comes after a loss
        found.append(ledger.dispute_appealed(after.id, after.amount, sides))
    return tuple(found)


def _is_cleared(dispute: Dispute) -> bool:
    """Whether the hold has ended in a loss."""
    return dispute.state == "lost" and dispute.funds == "withdrawn"
