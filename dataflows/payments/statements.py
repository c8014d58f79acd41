"""The set-based writes of payments: rows of a batch as columns, in the order of queries/payments/payments.sql."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from dataflows.owner.batch import Statement
from dataflows.payments.domain.journal import JournalEntry
from schemas.records import Dispute, PaymentIntent, ProcessorAttempt, Refund, RiskAssessment
from sinks.postgres.arrays import Bigints, Integers, bool_array, optional_text_array, text_array
from sinks.postgres.sql_files import queries

SQL: Final = queries("sinks.postgres.queries.payments", "payments.sql")
_json: Final = msgspec.json.Encoder()


def intents_insert(intents: Sequence[PaymentIntent], partition: int) -> Statement:
    """Intents that did not exist."""
    return SQL["intents_insert"], (
        partition,
        text_array([i.id for i in intents]),
        text_array([i.merchant_id for i in intents]),
        Bigints([i.amount for i in intents]),
        text_array([i.currency for i in intents]),
        text_array([i.state for i in intents]),
        Bigints([i.version for i in intents]),
        text_array([i.capture_method for i in intents]),
        optional_text_array([i.payment_method for i in intents]),
        text_array([i.processor for i in intents]),
        Bigints([i.amount_capturable for i in intents]),
        Bigints([i.amount_received for i in intents]),
        Bigints([i.amount_refunded for i in intents]),
        Bigints([i.amount_disputed for i in intents]),
        optional_text_array([i.last_payment_error for i in intents]),
        optional_text_array([i.cancellation_reason for i in intents]),
        Integers([i.latest_attempt for i in intents]),
        text_array([_json.encode(i.metadata).decode() if i.metadata else "{}" for i in intents]),
        Bigints([i.created_at for i in intents]),
        Bigints([i.updated_at for i in intents]),
        Bigints([i.amount_pending for i in intents]),
    )


def intents_update(intents: Sequence[PaymentIntent], read_versions: Sequence[int]) -> Statement:
    """Intents that were read at these versions; the statement fails when one is not at its version any more."""
    return SQL["intents_update"], (
        text_array([i.id for i in intents]),
        Bigints(read_versions),
        text_array([i.state for i in intents]),
        Bigints([i.version for i in intents]),
        optional_text_array([i.payment_method for i in intents]),
        Bigints([i.amount_capturable for i in intents]),
        Bigints([i.amount_received for i in intents]),
        Bigints([i.amount_refunded for i in intents]),
        Bigints([i.amount_disputed for i in intents]),
        optional_text_array([i.last_payment_error for i in intents]),
        optional_text_array([i.cancellation_reason for i in intents]),
        Integers([i.latest_attempt for i in intents]),
        Bigints([i.updated_at for i in intents]),
        Bigints([i.amount_pending for i in intents]),
        text_array([i.processor for i in intents]),
        optional_text_array([i.next_action for i in intents]),
        Bigints([i.authorized_until or 0 for i in intents]),
        len(intents),
    )


def intents_amend(intents: Sequence[PaymentIntent]) -> Statement:
    """What hardly ever changes of an intent. Sent after the insert or compare-and-set that guards these rows."""
    return SQL["intents_amend"], (
        text_array([i.id for i in intents]),
        Bigints([i.version for i in intents]),
        Bigints([i.amount for i in intents]),
        text_array([i.currency for i in intents]),
        text_array([i.capture_method for i in intents]),
        text_array([_json.encode(i.metadata).decode() if i.metadata else "{}" for i in intents]),
        optional_text_array([i.next_action for i in intents]),
        Bigints([i.authorized_until or 0 for i in intents]),
        len(intents),
    )


def attempts_insert(attempts: Sequence[ProcessorAttempt]) -> Statement:
    """New attempts, durable before any I/O to a processor."""
    return SQL["attempts_insert"], (
        text_array([a.intent_id for a in attempts]),
        Integers([a.attempt for a in attempts]),
        text_array([a.kind for a in attempts]),
        text_array([a.status for a in attempts]),
        text_array([a.operation_id for a in attempts]),
        text_array([a.processor for a in attempts]),
        Bigints([a.amount for a in attempts]),
        text_array([a.currency for a in attempts]),
        text_array([a.payment_method for a in attempts]),
        optional_text_array([a.parent_ref for a in attempts]),
        bool_array([a.final for a in attempts]),
        optional_text_array([a.provider_ref for a in attempts]),
        optional_text_array([a.error_code for a in attempts]),
        Bigints([a.created_at for a in attempts]),
        Bigints([a.updated_at for a in attempts]),
        optional_text_array([a.settled_line for a in attempts]),
        optional_text_array([a.route for a in attempts]),
    )


def attempts_update(attempts: Sequence[ProcessorAttempt]) -> Statement:
    """Attempts whose fact came."""
    return SQL["attempts_update"], (
        text_array([a.intent_id for a in attempts]),
        Integers([a.attempt for a in attempts]),
        text_array([a.status for a in attempts]),
        optional_text_array([a.provider_ref for a in attempts]),
        optional_text_array([a.error_code for a in attempts]),
        Bigints([a.updated_at for a in attempts]),
        bool_array([a.final for a in attempts]),
        optional_text_array([a.settled_line for a in attempts]),
        len(attempts),
    )


def refunds_insert(refunds: Sequence[Refund]) -> Statement:
    """Refunds that did not exist."""
    return SQL["refunds_insert"], (
        text_array([r.id for r in refunds]),
        text_array([r.intent_id for r in refunds]),
        text_array([r.merchant_id for r in refunds]),
        Integers([r.attempt for r in refunds]),
        Bigints([r.amount for r in refunds]),
        text_array([r.currency for r in refunds]),
        text_array([r.state for r in refunds]),
        optional_text_array([r.reason for r in refunds]),
        optional_text_array([r.failure_reason for r in refunds]),
        Bigints([r.from_pending for r in refunds]),
        text_array([_json.encode(r.metadata).decode() if r.metadata else "{}" for r in refunds]),
        Bigints([r.version for r in refunds]),
        Bigints([r.created_at for r in refunds]),
        Bigints([r.updated_at for r in refunds]),
        optional_text_array([r.pending_reason for r in refunds]),
    )


def refunds_update(refunds: Sequence[Refund]) -> Statement:
    """Refunds whose fact came."""
    return SQL["refunds_update"], (
        text_array([r.id for r in refunds]),
        text_array([r.state for r in refunds]),
        optional_text_array([r.failure_reason for r in refunds]),
        Bigints([r.from_pending for r in refunds]),
        Bigints([r.version for r in refunds]),
        Bigints([r.updated_at for r in refunds]),
        optional_text_array([r.pending_reason for r in refunds]),
        len(refunds),
    )


def disputes_insert(disputes: Sequence[Dispute]) -> Statement:
    """Disputes that were not heard of."""
    return SQL["disputes_insert"], (
        text_array([d.id for d in disputes]),
        text_array([d.intent_id for d in disputes]),
        text_array([d.merchant_id for d in disputes]),
        text_array([d.processor for d in disputes]),
        text_array([d.provider_ref for d in disputes]),
        Bigints([d.amount for d in disputes]),
        text_array([d.currency for d in disputes]),
        Bigints([d.fee for d in disputes]),
        optional_text_array([d.reason for d in disputes]),
        text_array([d.state for d in disputes]),
        text_array([d.funds for d in disputes]),
        Bigints([d.version for d in disputes]),
        Bigints([d.created_at for d in disputes]),
        Bigints([d.updated_at for d in disputes]),
    )


def disputes_update(disputes: Sequence[Dispute]) -> Statement:
    """Disputes that moved on."""
    return SQL["disputes_update"], (
        text_array([d.id for d in disputes]),
        text_array([d.state for d in disputes]),
        text_array([d.funds for d in disputes]),
        Bigints([d.fee for d in disputes]),
        optional_text_array([d.reason for d in disputes]),
        Bigints([d.version for d in disputes]),
        Bigints([d.updated_at for d in disputes]),
        optional_text_array([None if d.evidence is None else _json.encode(d.evidence).decode() for d in disputes]),
        optional_text_array([d.evidence_state for d in disputes]),
        len(disputes),
    )


def assessments_insert(assessments: Sequence[RiskAssessment]) -> Statement:
    """What the rules, or an operator, said of confirms."""
    return SQL["assessments_insert"], (
        text_array([a.intent_id for a in assessments]),
        Integers([a.attempt for a in assessments]),
        optional_text_array([a.decided_by for a in assessments]),
        text_array([a.outcome for a in assessments]),
        Integers([a.score for a in assessments]),
        Integers([a.policy_version for a in assessments]),
        text_array([_json.encode(a.reasons).decode() for a in assessments]),
        Bigints([a.created_at for a in assessments]),
    )


def journals_insert(journals: Sequence[tuple[JournalEntry, str, int]], partition: int) -> Statement:
    """Journal entries with the scope that posted each, and when."""
    return SQL["journals_insert"], (
        partition,
        text_array([j.id for j, _, _ in journals]),
        text_array([j.posting.reference for j, _, _ in journals]),
        text_array([j.posting.kind for j, _, _ in journals]),
        optional_text_array([j.note for j, _, _ in journals]),
        text_array([scope for _, scope, _ in journals]),
        Bigints([at for _, _, at in journals]),
    )
