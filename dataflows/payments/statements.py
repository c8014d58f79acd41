"""The set-based writes of payments: rows of a batch as columns, in the order of queries/payments/payments.sql."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from dataflows.owner.batch import Statement
from dataflows.payments.domain.journal import JournalEntry
from schemas.records import Dispute, PaymentIntent, ProcessorAttempt, Refund, RiskAssessment
from sinks.postgres.arrays import Bigints, Booleans, Count, Integers, OptionalTexts, Texts, Times
from sinks.postgres.sql_files import queries

SQL: Final = queries("sinks.postgres.queries.payments", "payments.sql")
_json: Final = msgspec.json.Encoder()


def intents_insert(intents: Sequence[PaymentIntent], partition: int) -> Statement:
    """Intents that did not exist."""
    return SQL["intents_insert"], (
        Integers([partition] * len(intents)),
        Texts([i.id for i in intents]),
        Texts([i.merchant_id for i in intents]),
        Bigints([i.amount for i in intents]),
        Texts([i.currency for i in intents]),
        Texts([i.state for i in intents]),
        Bigints([i.version for i in intents]),
        Texts([i.capture_method for i in intents]),
        OptionalTexts([i.payment_method for i in intents]),
        Texts([i.processor for i in intents]),
        Bigints([i.amount_capturable for i in intents]),
        Bigints([i.amount_received for i in intents]),
        Bigints([i.amount_refunded for i in intents]),
        Bigints([i.amount_disputed for i in intents]),
        OptionalTexts([i.last_payment_error for i in intents]),
        OptionalTexts([i.cancellation_reason for i in intents]),
        Integers([i.latest_attempt for i in intents]),
        Texts([_json.encode(i.metadata).decode() if i.metadata else "{}" for i in intents]),
        Times([i.created_at for i in intents]),
        Times([i.updated_at for i in intents]),
        Bigints([i.amount_pending for i in intents]),
    )


def intents_update(intents: Sequence[PaymentIntent], read_versions: Sequence[int]) -> Statement:
    """Intents that were read at these versions; the statement fails when one is not at its version any more."""
    return SQL["intents_update"], (
        Texts([i.id for i in intents]),
        Bigints(read_versions),
        Texts([i.state for i in intents]),
        Bigints([i.version for i in intents]),
        OptionalTexts([i.payment_method for i in intents]),
        Bigints([i.amount_capturable for i in intents]),
        Bigints([i.amount_received for i in intents]),
        Bigints([i.amount_refunded for i in intents]),
        Bigints([i.amount_disputed for i in intents]),
        OptionalTexts([i.last_payment_error for i in intents]),
        OptionalTexts([i.cancellation_reason for i in intents]),
        Integers([i.latest_attempt for i in intents]),
        Times([i.updated_at for i in intents]),
        Bigints([i.amount_pending for i in intents]),
        Texts([i.processor for i in intents]),
        OptionalTexts([i.next_action for i in intents]),
        Bigints([i.authorized_until or 0 for i in intents]),
        Count(len(intents)),
    )


def intents_amend(intents: Sequence[PaymentIntent]) -> Statement:
    """What hardly ever changes of an intent. Sent after the insert or compare-and-set that guards these rows."""
    return SQL["intents_amend"], (
        Texts([i.id for i in intents]),
        Bigints([i.version for i in intents]),
        Bigints([i.amount for i in intents]),
        Texts([i.currency for i in intents]),
        Texts([i.capture_method for i in intents]),
        Texts([_json.encode(i.metadata).decode() if i.metadata else "{}" for i in intents]),
        OptionalTexts([i.next_action for i in intents]),
        Bigints([i.authorized_until or 0 for i in intents]),
        Count(len(intents)),
    )


def attempts_insert(attempts: Sequence[ProcessorAttempt]) -> Statement:
    """New attempts, durable before any I/O to a processor."""
    return SQL["attempts_insert"], (
        Texts([a.intent_id for a in attempts]),
        Integers([a.attempt for a in attempts]),
        Texts([a.kind for a in attempts]),
        Texts([a.status for a in attempts]),
        Texts([a.operation_id for a in attempts]),
        Texts([a.processor for a in attempts]),
        Bigints([a.amount for a in attempts]),
        Texts([a.currency for a in attempts]),
        Texts([a.payment_method for a in attempts]),
        OptionalTexts([a.parent_ref for a in attempts]),
        Booleans([a.final for a in attempts]),
        OptionalTexts([a.provider_ref for a in attempts]),
        OptionalTexts([a.error_code for a in attempts]),
        Times([a.created_at for a in attempts]),
        Times([a.updated_at for a in attempts]),
        OptionalTexts([a.settled_line for a in attempts]),
        OptionalTexts([a.route for a in attempts]),
    )


def attempts_update(attempts: Sequence[ProcessorAttempt]) -> Statement:
    """Attempts whose fact came."""
    return SQL["attempts_update"], (
        Texts([a.intent_id for a in attempts]),
        Integers([a.attempt for a in attempts]),
        Texts([a.status for a in attempts]),
        OptionalTexts([a.provider_ref for a in attempts]),
        OptionalTexts([a.error_code for a in attempts]),
        Times([a.updated_at for a in attempts]),
        Booleans([a.final for a in attempts]),
        OptionalTexts([a.settled_line for a in attempts]),
        Count(len(attempts)),
    )


def refunds_insert(refunds: Sequence[Refund]) -> Statement:
    """Refunds that did not exist."""
    return SQL["refunds_insert"], (
        Texts([r.id for r in refunds]),
        Texts([r.intent_id for r in refunds]),
        Texts([r.merchant_id for r in refunds]),
        Integers([r.attempt for r in refunds]),
        Bigints([r.amount for r in refunds]),
        Texts([r.currency for r in refunds]),
        Texts([r.state for r in refunds]),
        OptionalTexts([r.reason for r in refunds]),
        OptionalTexts([r.failure_reason for r in refunds]),
        Bigints([r.from_pending for r in refunds]),
        Texts([_json.encode(r.metadata).decode() if r.metadata else "{}" for r in refunds]),
        Bigints([r.version for r in refunds]),
        Bigints([r.created_at for r in refunds]),
        Bigints([r.updated_at for r in refunds]),
        OptionalTexts([r.pending_reason for r in refunds]),
    )


def refunds_update(refunds: Sequence[Refund]) -> Statement:
    """Refunds whose fact came."""
    return SQL["refunds_update"], (
        Texts([r.id for r in refunds]),
        Texts([r.state for r in refunds]),
        OptionalTexts([r.failure_reason for r in refunds]),
        Bigints([r.from_pending for r in refunds]),
        Bigints([r.version for r in refunds]),
        Bigints([r.updated_at for r in refunds]),
        OptionalTexts([r.pending_reason for r in refunds]),
        Count(len(refunds)),
    )


def disputes_insert(disputes: Sequence[Dispute]) -> Statement:
    """Disputes that were not heard of."""
    return SQL["disputes_insert"], (
        Texts([d.id for d in disputes]),
        Texts([d.intent_id for d in disputes]),
        Texts([d.merchant_id for d in disputes]),
        Texts([d.processor for d in disputes]),
        Texts([d.provider_ref for d in disputes]),
        Bigints([d.amount for d in disputes]),
        Texts([d.currency for d in disputes]),
        Bigints([d.fee for d in disputes]),
        OptionalTexts([d.reason for d in disputes]),
        Texts([d.state for d in disputes]),
        Texts([d.funds for d in disputes]),
        Bigints([d.version for d in disputes]),
        Bigints([d.created_at for d in disputes]),
        Bigints([d.updated_at for d in disputes]),
    )


def disputes_update(disputes: Sequence[Dispute]) -> Statement:
    """Disputes that moved on."""
    return SQL["disputes_update"], (
        Texts([d.id for d in disputes]),
        Texts([d.state for d in disputes]),
        Texts([d.funds for d in disputes]),
        Bigints([d.fee for d in disputes]),
        OptionalTexts([d.reason for d in disputes]),
        Bigints([d.version for d in disputes]),
        Bigints([d.updated_at for d in disputes]),
        OptionalTexts([None if d.evidence is None else _json.encode(d.evidence).decode() for d in disputes]),
        OptionalTexts([d.evidence_state for d in disputes]),
        Count(len(disputes)),
    )


def assessments_insert(assessments: Sequence[RiskAssessment]) -> Statement:
    """What the rules, or an operator, said of confirms."""
    return SQL["assessments_insert"], (
        Texts([a.intent_id for a in assessments]),
        Integers([a.attempt for a in assessments]),
        OptionalTexts([a.decided_by for a in assessments]),
        Texts([a.outcome for a in assessments]),
        Integers([a.score for a in assessments]),
        Integers([a.policy_version for a in assessments]),
        Texts([_json.encode(a.reasons).decode() for a in assessments]),
        Bigints([a.created_at for a in assessments]),
    )


def journals_insert(journals: Sequence[tuple[JournalEntry, str, int]], partition: int) -> Statement:
    """Journal entries with the scope that posted each, and when."""
    return SQL["journals_insert"], (
        Integers([partition] * len(journals)),
        Texts([j.id for j, _, _ in journals]),
        Texts([j.posting.reference for j, _, _ in journals]),
        Texts([j.posting.kind for j, _, _ in journals]),
        OptionalTexts([j.note for j, _, _ in journals]),
        Texts([scope for _, scope, _ in journals]),
        Bigints([at for _, _, at in journals]),
    )
