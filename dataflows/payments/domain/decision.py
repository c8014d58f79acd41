"""The inputs and outputs of a decision. Plain data: the domain has no clock and no randomness."""

from __future__ import annotations

from msgspec import Struct, field

from dataflows.payments.domain.ledger.posting import Posting
from dataflows.payments.domain.policies.fees import FeeSchedule
from dataflows.payments.domain.policies.in_force import NOTHING_PUBLISHED, Policies
from schemas.payments.records import Dispute, PaymentIntent, ProcessorAttempt, Refund, RiskAssessment
from schemas.records import Command


class Context(Struct, frozen=True, kw_only=True):
    """What a decision may know beside the aggregate and the command: the time (microseconds) and the policies."""

    now: int
    fees: FeeSchedule
    processor: str  # the processor of new intents, unless a rule says otherwise
    policies: Policies = NOTHING_PUBLISHED


class Payment(Struct, kw_only=True):
    """The aggregate as one owner holds it: the intent, all its attempts by number, its refunds and disputes by id."""

    intent: PaymentIntent
    attempts: dict[int, ProcessorAttempt]
    refunds: dict[str, Refund] = field(default_factory=dict)
    disputes: dict[str, Dispute] = field(default_factory=dict)


class Decision(Struct, frozen=True, kw_only=True):
    """The next state of one aggregate and what goes with it in the same commit."""

    intent: PaymentIntent
    attempt: ProcessorAttempt | None = None  # made or changed
    caused_by: ProcessorAttempt | None = None  # changed: what led to ``attempt``, as a late capture to its refund
    refund: Refund | None = None  # made or changed
    dispute: Dispute | None = None  # made or changed
    risk: RiskAssessment | None = None  # made
    waiting: Command | None = None  # the confirm that an operator must approve
    postings: tuple[Posting, ...] = ()
    amended: bool = False  # the intent's amount, currency, capture method or metadata changed


def applied(payment: Payment | None, decision: Decision) -> Payment:
    """The aggregate after a decision, as a new value; the old one is unchanged."""
    attempts = dict(payment.attempts) if payment else {}
    refunds = dict(payment.refunds) if payment else {}
    disputes = dict(payment.disputes) if payment else {}
    for attempt in (decision.caused_by, decision.attempt):
        if attempt is not None:
            attempts[attempt.attempt] = attempt
    if decision.refund is not None:
        refunds[decision.refund.id] = decision.refund
    if decision.dispute is not None:
        disputes[decision.dispute.id] = decision.dispute
    return Payment(intent=decision.intent, attempts=attempts, refunds=refunds, disputes=disputes)
