"""The set-based writes of payments: rows of a batch as columns. Which columns, the records say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from dataflows.owner.batch import Statement
from dataflows.payments.domain.ledger.journal import JournalEntry
from schemas.payments.records import Dispute, PaymentIntent, ProcessorAttempt, Refund, RiskAssessment
from sinks.postgres.arrays import Bigints, Count, Integers, OptionalTexts, Texts
from sinks.postgres.column_lists import packed
from sinks.postgres.copied import copied
from sinks.postgres.sql_files import queries

SQL: Final = queries("sinks.postgres.queries.payments", "payments.sql")
_json: Final = msgspec.json.Encoder()


def intents_insert(intents: Sequence[PaymentIntent], partition: int) -> Statement:
    """Intents that did not exist."""
    return copied(SQL["intents_insert"]), (
        Integers([partition] * len(intents)),
        *packed(PaymentIntent, "insert", intents),
    )


def intents_update(intents: Sequence[PaymentIntent], read_versions: Sequence[int]) -> Statement:
    """Intents that were read at these versions; the statement fails when one is not at its version any more."""
    columns = packed(PaymentIntent, "update", intents)
    return SQL["intents_update"], (Bigints(read_versions), *columns, Count(len(intents)))


def intents_amend(intents: Sequence[PaymentIntent]) -> Statement:
    """What hardly ever changes of an intent. Sent after the insert or compare-and-set that guards these rows."""
    return SQL["intents_amend"], (*packed(PaymentIntent, "amend", intents), Count(len(intents)))


def attempts_insert(attempts: Sequence[ProcessorAttempt]) -> Statement:
    """New attempts, durable before any I/O to a processor."""
    return copied(SQL["attempts_insert"]), packed(ProcessorAttempt, "insert", attempts)


def attempts_update(attempts: Sequence[ProcessorAttempt]) -> Statement:
    """Attempts whose fact came."""
    return SQL["attempts_update"], (*packed(ProcessorAttempt, "update", attempts), Count(len(attempts)))


def refunds_insert(refunds: Sequence[Refund]) -> Statement:
    """Refunds that did not exist."""
    return SQL["refunds_insert"], packed(Refund, "insert", refunds)


def refunds_update(refunds: Sequence[Refund]) -> Statement:
    """Refunds whose fact came."""
    return SQL["refunds_update"], (*packed(Refund, "update", refunds), Count(len(refunds)))


def disputes_insert(disputes: Sequence[Dispute]) -> Statement:
    """Disputes that were not heard of."""
    return SQL["disputes_insert"], packed(Dispute, "insert", disputes)


def disputes_update(disputes: Sequence[Dispute]) -> Statement:
    """Disputes that moved on."""
    return SQL["disputes_update"], (*packed(Dispute, "update", disputes), Count(len(disputes)))


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
