"""The payments of one batch in memory: commands fold into them one after another, and each is written once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from dataflows.domain import commands as domain
from dataflows.domain import journal
from dataflows.domain.decision import Context, Decision, Payment
from dataflows.domain.journal import JournalEntry
from dataflows.domain.ledger import Posting, is_balanced
from dataflows.owner.batch import Statement
from dataflows.owner.service import MISROUTED, Committed
from dataflows.payments import ledger_statements, statements
from schemas import rendering
from schemas.errors import UnbalancedPosting
from schemas.records import (
    Command,
    Dispute,
    LedgerTxn,
    PaymentIntent,
    ProcessorAttempt,
    Refund,
    Rejection,
    RiskAssessment,
)
from schemas.topics import PAYMENTS_PARTITIONS, partition_for
from sinks.postgres.ledger_chain import link_hash

if TYPE_CHECKING:
    from dataflows.payments.partition import PaymentsPartition

TXNS_PER_COMMAND_MAX: Final = 16
_OFFSETS_PER_PARTITION: Final = 2**44  # commands a partition can hold before a txn_id would reach the next one
_CREATES: Final = frozenset({"create_payment_intent", "post_journal"})
_REFUND_COMMANDS: Final = frozenset({"create_refund", "cancel_refund"})


def txn_id(partition: int, offset: int, number: int) -> int:
    """The place of a ledger transaction: ascending in a partition, equal when the same command is decided again."""
    return (partition * _OFFSETS_PER_PARTITION + offset) * TXNS_PER_COMMAND_MAX + number


class PaymentsWorkspace:
    """The payments of one batch in memory."""

    def __init__(
        self, partition: PaymentsPartition, payments: dict[str, Payment], elsewhere: set[str], journals: set[str]
    ) -> None:
        self.partition = partition
        self.elsewhere = elsewhere  # aggregates that another partition owns
        self.payments = payments
        self.read_versions = {key: payment.intent.version for key, payment in payments.items()}
        self.changed: dict[str, PaymentIntent] = {}
        self.attempts_new: dict[tuple[str, int], ProcessorAttempt] = {}
        self.attempts_changed: dict[tuple[str, int], ProcessorAttempt] = {}
        self.refunds_new: dict[str, Refund] = {}
        self.refunds_changed: dict[str, Refund] = {}
        self.disputes_new: dict[str, Dispute] = {}
        self.disputes_changed: dict[str, Dispute] = {}
        self.assessments: list[RiskAssessment] = []
        self.journals = journals  # those that exist
        self.journals_new: list[tuple[JournalEntry, str, int]] = []
        self.txns: list[tuple[LedgerTxn, Command]] = []
        self.link_hash = b""

    def decide(self, command: Command, offset: int, now: int) -> Committed | Rejection:
        """Folds one command in. Raises UnbalancedPosting before anything of it is kept."""
        self._recall(command.aggregate_key)
        if self._is_misrouted(command):
            return MISROUTED
        if command.operation == "post_journal":
            return self._journal(command, offset, now)
        partition = self.partition
        context = Context(
            now=now, fees=partition.fees, processor=partition.processor, policies=partition.policies.current
        )
        decision = domain.decide(self.payments.get(command.aggregate_key), command, context)
        if isinstance(decision, Rejection):
            return decision
        txns = self._post(decision.postings, offset, now)
        self._keep(decision)
        self.txns.extend((txn, command) for txn in txns)
        intent = decision.intent
        return Committed(
            result=_result(decision, command),
            version=intent.version,
            scope=intent.merchant_id,
            event_body={
                "payment_intent": intent,
                "processor_attempt": decision.attempt,
                "ledger_txns": txns,
                "refund": decision.refund,
                "dispute": decision.dispute,
                "caused_by": decision.caused_by,
                "risk": decision.risk,
                "account": None,
                "payout": None,
            },
        )

    def _journal(self, command: Command, offset: int, now: int) -> Committed | Rejection:
        entry = journal.decide_post(command, exists=command.aggregate_key in self.journals)
        if isinstance(entry, Rejection):
            return entry
        txns = self._post((entry.posting,), offset, now)
        self.journals.add(entry.id)
        self.journals_new.append((entry, command.scope, now))
        self.txns.extend((txn, command) for txn in txns)
        return Committed(
            result={"id": entry.id, "object": "journal_entry", "reference": entry.posting.reference},
            version=1,
            scope=command.scope,
            event_body={
                "payment_intent": None,
                "processor_attempt": None,
                "ledger_txns": txns,
                "refund": None,
                "dispute": None,
                "caused_by": None,
                "risk": None,
                "account": None,
                "payout": None,
            },
        )

    def _recall(self, key: str) -> None:
        """A remembered payment becomes part of this workspace, as a copy: the batch may still fail."""
        remembered = self.partition.remembered.get(key)
        if remembered is not None and key not in self.payments:
            self.payments[key] = Payment(
                intent=remembered.intent,
                attempts=dict(remembered.attempts),
                refunds=dict(remembered.refunds),
                disputes=dict(remembered.disputes),
            )
            self.read_versions[key] = remembered.intent.version

    def _is_misrouted(self, command: Command) -> bool:
        """Whether a producer of its own wrote it to a partition that does not own the aggregate."""
        if command.aggregate_key in self.payments:
            return command.aggregate_key in self.elsewhere
        if command.operation not in _CREATES:
            return False  # there is nothing it could change
        return partition_for(command.aggregate_key, PAYMENTS_PARTITIONS) != self.partition.partition

    def _post(self, postings: Sequence[Posting], offset: int, now: int) -> list[LedgerTxn]:
        txns = []
        for number, posting in enumerate(postings):
            if not is_balanced(posting.entries):
                raise UnbalancedPosting(reference=posting.reference)
            place = txn_id(self.partition.partition, offset, number)
            txns.append(
                LedgerTxn(
                    txn_id=place,
                    reference=posting.reference,
                    kind=posting.kind,
                    effective_at=now,
                    entries=posting.entries,
                )
            )
        return txns

    def _keep(self, decision: Decision) -> None:
        """The workspace's own copies change in place: a batch touches a payment several times."""
        intent = decision.intent
        payment = self.payments.get(intent.id)
        if payment is None:
            payment = self.payments[intent.id] = Payment(intent=intent, attempts={})
        payment.intent = intent
        self.changed[intent.id] = intent
        for attempt in (decision.caused_by, decision.attempt):
            if attempt is not None:
                identity = (attempt.intent_id, attempt.attempt)
                is_new = attempt.attempt not in payment.attempts or identity in self.attempts_new
                (self.attempts_new if is_new else self.attempts_changed)[identity] = attempt
                payment.attempts[attempt.attempt] = attempt
        if decision.risk is not None:
            self.assessments.append(decision.risk)
        if (refund := decision.refund) is not None:
            is_new = refund.id not in payment.refunds or refund.id in self.refunds_new
            (self.refunds_new if is_new else self.refunds_changed)[refund.id] = refund
            payment.refunds[refund.id] = refund
        if (dispute := decision.dispute) is not None:
            is_new = dispute.id not in payment.disputes or dispute.id in self.disputes_new
            (self.disputes_new if is_new else self.disputes_changed)[dispute.id] = dispute
            payment.disputes[dispute.id] = dispute

    def writes(self) -> list[Statement]:
        """The rows that changed, in an order in which no two owners can wait for one another."""
        new = [i for i in self.changed.values() if i.id not in self.read_versions]
        old = [i for i in self.changed.values() if i.id in self.read_versions]
        found: list[Statement] = []
        if new:
            found.append(statements.intents_insert(new, self.partition.partition))
        if old:
            found.append(statements.intents_update(old, [self.read_versions[i.id] for i in old]))
        if self.attempts_changed:  # first: a refused charge makes room for the next one in the index of live charges
            found.append(statements.attempts_update(list(self.attempts_changed.values())))
        if self.attempts_new:
            found.append(statements.attempts_insert(list(self.attempts_new.values())))
        found.extend(self._parts())
        if self.txns:
            found.extend(self._ledger())
        return found

    def _parts(self) -> list[Statement]:
        """Refunds, disputes and journal entries. A batch without any, as most are, sends nothing for them."""
        found: list[Statement] = []
        if self.refunds_new:
            found.append(statements.refunds_insert(list(self.refunds_new.values())))
        if self.refunds_changed:
            found.append(statements.refunds_update(list(self.refunds_changed.values())))
        if self.disputes_new:
            found.append(statements.disputes_insert(list(self.disputes_new.values())))
        if self.disputes_changed:
            found.append(statements.disputes_update(list(self.disputes_changed.values())))
        if self.assessments:
            found.append(statements.assessments_insert(self.assessments))
        if self.journals_new:
            found.append(statements.journals_insert(self.journals_new, self.partition.partition))
        return found

    def _ledger(self) -> list[Statement]:
        partition = self.partition
        txns = [txn for txn, _ in self.txns]
        self.link_hash = link_hash(partition.hash, ledger_statements.chain_rows(txns))
        link = (
            partition.link + 1,
            txns[0].txn_id,
            txns[-1].txn_id,
            len(txns),
            partition.hash,
            self.link_hash,
        )
        return [
            ledger_statements.ledger_txns_insert(self.txns, partition.partition),
            ledger_statements.ledger_entries_insert(txns),
            (statements.SQL["ledger_chain_insert"], (partition.partition, *link)),
            ledger_statements.balances_add(txns, partition.partition),
        ]

    def committed(self) -> None:
        """The chain is one link longer, if the batch posted anything; what changed is remembered."""
        for key in self.changed:
            self.partition.remember(self.payments[key])
        if self.link_hash:
            self.partition.link += 1
            self.partition.hash = self.link_hash


def _result(decision: Decision, command: Command) -> dict[str, Any]:
    """What the caller asked for: the refund of a refund's command, the dispute of its fact, else the intent."""
    if decision.refund is not None and command.operation in _REFUND_COMMANDS:
        return rendering.refund(decision.refund)
    if decision.dispute is not None:
        return rendering.dispute(decision.dispute)
    return rendering.payment_intent(decision.intent)
