"""The entry to the domain: which function decides which operation on a payment, and the rules for all of them.

Journal entries are not operations on a payment; ``journal`` decides them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import structs

from dataflows.payments.domain import (
    authorization,
    dispute,
    dispute_evidence,
    payment_intent,
    processor_attempt,
    refund,
    risk_review,
    settlement,
)
from dataflows.payments.domain.decision import Context, Decision, Payment
from dataflows.payments.domain.policies import fees
from schemas.identity import OPERATOR_SCOPE
from schemas.payments.facts import PROCESSOR_SCOPE
from schemas.payments.records import Dispute, Refund
from schemas.records import Command, Rejection
from schemas.refusals import stale

SETTLEMENT_SCOPE: Final = "settlement:"

_DECIDE: Final[dict[str, Callable[[Payment, Command, Context], Decision | Rejection]]] = {
    "update_payment_intent": payment_intent.decide_update,
    "confirm_payment_intent": payment_intent.decide_confirm,
    "capture_payment_intent": payment_intent.decide_capture,
    "cancel_payment_intent": payment_intent.decide_cancel,
    "increment_authorization": authorization.decide_increment,
    "review_payment_intent": risk_review.decide_review,
    "create_refund": refund.decide_create,
    "cancel_refund": refund.decide_cancel,
    "submit_dispute_evidence": dispute_evidence.decide_evidence,
    "record_attempt_outcome": processor_attempt.decide_outcome,
    "expire_authorization": authorization.decide_expire,
    "record_dispute": dispute.decide_dispute,
    "record_settlement_line": settlement.decide_line,
}
#: operations that a frozen merchant may not begin; what is under way goes on, and facts are always taken
BEGINS_SOMETHING: Final = frozenset(
    {"create_payment_intent", "confirm_payment_intent", "increment_authorization", "create_refund"}
)
_OPERATORS: Final = frozenset({"review_payment_intent"})
_FACTS: Final = {
    "record_attempt_outcome": PROCESSOR_SCOPE,
    "expire_authorization": PROCESSOR_SCOPE,
    "record_dispute": PROCESSOR_SCOPE,
    "record_settlement_line": SETTLEMENT_SCOPE,
}


def decide(payment: Payment | None, command: Command, context: Context) -> Decision | Rejection:
    """The decision on one command against the current aggregate; pure, and total over every operation on a payment."""
    frozen = context.policies.frozen_merchants
    if frozen and command.scope in frozen and command.operation in BEGINS_SOMETHING:
        return Rejection("account_frozen", "The account is frozen; nothing new is begun.", {})
    if command.operation == "create_payment_intent":
        return payment_intent.decide_create(payment, command, context)
    if payment is None or not _may_touch(payment, command):
        return Rejection("not_found", "No such object.", {})
    current = _version_seen(payment, command)
    if current is not None and (refused := stale(command.expected_version, current)):
        return refused
    return _DECIDE[command.operation](payment, command, _under_its_terms(payment, context))


def _under_its_terms(payment: Payment, context: Context) -> Context:
    """The context with this payment's fees, which were in force when it was made."""
    versions, intent = context.policies.fees, payment.intent
    if not versions:
        return context
    terms = fees.schedule_of(versions, intent.merchant_id, intent.currency, intent.created_at, context.fees)
    return structs.replace(context, fees=terms)


def _version_seen(payment: Payment, command: Command) -> int | None:
    """The version that the caller can have read: that of the part it works on (None: unknown), else the intent's."""
    part: Any
    known: Refund | Dispute | None
    if command.operation == "cancel_refund":
        part = command.payload["refund"]
        known = payment.refunds.get(part)
    elif command.operation == "submit_dispute_evidence":
        part = command.payload["dispute"]
        known = payment.disputes.get(part)
    else:
        return payment.intent.version
    return known.version if known else None


def _may_touch(payment: Payment, command: Command) -> bool:
    """A merchant may touch its own intents, a processor and its settlements those that it served; others get not_found.

    A fact about an attempt must come from that attempt's processor: the intent may have moved on to another one.
    """
    prefix = _FACTS.get(command.operation)
    if command.operation in _OPERATORS:
        return command.scope.startswith(OPERATOR_SCOPE)
    if prefix is None:
        return command.scope == payment.intent.merchant_id
    number: Any = command.payload.get("attempt")
    told_by = command.scope.removeprefix(prefix) if command.scope.startswith(prefix) else ""
    if number in payment.attempts:
        return told_by == payment.attempts[number].processor
    if number is None and any(told_by == attempt.processor for attempt in payment.attempts.values()):
        return True
    return told_by == payment.intent.processor
