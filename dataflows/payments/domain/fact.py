"""Rules for all facts about attempts: when an attempt is open, which facts are stale, how an answer is checked."""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs

from dataflows.payments.domain.decision import Context, Decision, Payment
from dataflows.payments.domain.ledger import ledger
from dataflows.payments.domain.payment_intent import advance
from dataflows.payments.domain.routing import CHARGES
from schemas.payments.records import PaymentIntent, ProcessorAttempt
from schemas.records import Rejection

OPEN: Final = frozenset({"created", "pending", "unknown", "requires_action", "manual_review"})
UNDECIDED: Final = frozenset({"pending", "unknown", "requires_action", "manual_review"})  # facts that decide nothing
REFUSED: Final = frozenset({"declined", "failed"})
MOVES_MONEY: Final = frozenset({"authorized", "captured", "voided", "refunded"})
SUCCESS: Final = {
    "authorize": "authorized",
    "purchase": "captured",
    "increment": "authorized",
    "capture": "captured",
    "void": "voided",
    "refund": "refunded",
    "evidence": "submitted",
}


def undecided(
    payment: Payment, attempt: ProcessorAttempt, fact: dict[str, Any], context: Context
) -> Decision | Rejection:
    """Records a doubt about an open attempt, which stays open."""
    status: str = fact["status"]
    if attempt.status in (status, "manual_review"):
        return stale(attempt)
    if status == "unknown" and attempt.status == "requires_action":  # an unanswered question says nothing of it
        return stale(attempt)
    after = changed(attempt, context, status=status, error_code=fact["error_code"], provider_ref=fact["provider_ref"])
    intent = payment.intent
    if attempt.kind in CHARGES and status == "requires_action" and intent.state == "processing":
        told = fact.get("next_action") or fact.get("redirect_url")
        action = advance(intent, context, state="requires_action", next_action=told)
        return Decision(intent=action, attempt=after)
    moved_on = advance(intent, context)  # for a refund or evidence it does not change what the payer has to do
    return Decision(intent=action_over(moved_on) if attempt.kind in CHARGES else moved_on, attempt=after)


def action_over(intent: PaymentIntent) -> PaymentIntent:
    """The payer has nothing more to do; the processor will tell the outcome."""
    if intent.state == "requires_action":
        intent.state, intent.next_action = "processing", None
    return intent


def integrity_error(attempt: ProcessorAttempt, fact: dict[str, Any]) -> str | None:
    """The reason why an answer does not match what we asked: its amount and currency are checked, not trusted."""
    if fact["status"] != SUCCESS[attempt.kind]:
        return "unexpected_status"
    if fact["amount"] != attempt.amount:
        return "amount_mismatch"
    if fact["currency"] != attempt.currency:
        return "currency_mismatch"
    return None


def stale(attempt: ProcessorAttempt) -> Rejection:
    """The refusal of a fact that says nothing new."""
    return Rejection("stale_fact", "The attempt already has this or a later status.", {"status": attempt.status})


def contradiction(why: str) -> Rejection:
    """The refusal of a money fact that does not fit what is known: a case for people."""
    return Rejection("contradicts_attempt", why, {})


def changed(attempt: ProcessorAttempt, context: Context, **changes: object) -> ProcessorAttempt:
    """The attempt after a fact; a known provider_ref is kept."""
    if changes.get("provider_ref") is None:
        changes["provider_ref"] = attempt.provider_ref
    return structs.replace(attempt, updated_at=context.now, **changes)


def parties(payment: Payment, attempt: ProcessorAttempt) -> ledger.Parties:
    """The two parties between whom an attempt moves money."""
    return ledger.Parties(attempt.processor, payment.intent.merchant_id, payment.intent.currency)
