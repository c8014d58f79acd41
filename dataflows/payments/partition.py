"""Payments as one owned partition: loads payments, folds commands into them, writes what changed.

Every aggregate of a batch is read once and written once, whatever the number of commands. The ledger chain moves on
after the commit only, and so does what is remembered of payments under way: while the lease holds nobody else writes
them, every batch proves the lease in its own transaction, and the compare-and-set on the version proves it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from dataflows.domain import commands as domain
from dataflows.domain.decision import Context, Decision, Payment
from dataflows.domain.fees import FeeSchedule
from dataflows.domain.ledger import is_balanced
from dataflows.owner.batch import Statement
from dataflows.owner.service import MISROUTED, Committed
from dataflows.payments import statements
from schemas import limits, rendering
from schemas.errors import UnbalancedPosting
from schemas.records import Command, LedgerTxn, PaymentIntent, ProcessorAttempt, Rejection
from schemas.topics import PAYMENTS_PARTITIONS, partition_for
from sinks.postgres import arrays
from sinks.postgres.ledger_chain import GENESIS, link_hash
from sinks.postgres.owner_connection import OwnerConnection

TXNS_PER_COMMAND_MAX: Final = 16
_OFFSETS_PER_PARTITION: Final = 2**44  # commands a partition can hold before a txn_id would reach the next one


def txn_id(partition: int, offset: int, number: int) -> int:
    """The place of a ledger transaction: ascending in a partition, equal when the same command is decided again."""
    return (partition * _OFFSETS_PER_PARTITION + offset) * TXNS_PER_COMMAND_MAX + number


class PaymentsPartition:
    """The payments state of one owned partition."""

    def __init__(self, connection: OwnerConnection, partition: int, fees: FeeSchedule, processor: str) -> None:
        self.partition = partition
        self.fees = fees
        self.processor = processor
        row = connection.execute(statements.SQL["chain_read"], (partition,)).fetchone()
        self.link, self.hash = row or (0, GENESIS)
        self.remembered: dict[str, Payment] = {}  # payments under way as this lease committed them, oldest first

    def remember(self, payment: Payment) -> None:
        """Called after the commit that made it so. A finished payment is seldom asked for: it is read then."""
        key = payment.intent.id
        self.remembered.pop(key, None)
        if payment.intent.state not in _FINISHED:
            self.remembered[key] = payment
            if len(self.remembered) > limits.PAYMENTS_REMEMBERED_MAX:
                del self.remembered[next(iter(self.remembered))]

    def reads(self, keys: list[str]) -> list[Statement]:
        """The intents of a batch and their attempts, without those that are remembered."""
        unknown = [key for key in keys if key not in self.remembered]
        if not unknown:
            return []
        ids = (arrays.text_array(unknown),)
        return [(statements.SQL["intents_read"], ids), (statements.SQL["attempts_read"], ids)]

    def begin(self, rows: Sequence[list[tuple[Any, ...]]]) -> PaymentsWorkspace:
        """A workspace over the rows of ``reads``; over nothing for a batch without commands."""
        intents, attempts = rows or ([], [])
        payments = {row[0]: Payment(intent=_intent(row), attempts={}) for row in intents}
        for row in attempts:
            payments[row[0]].attempts[row[1]] = ProcessorAttempt(**dict(zip(_ATTEMPT_FIELDS, row, strict=True)))
        return PaymentsWorkspace(self, payments, {row[0] for row in intents if row[-1] != self.partition})


_FINISHED: Final = frozenset({"succeeded", "canceled"})
_INTENT_FIELDS: Final = PaymentIntent.__struct_fields__
_ATTEMPT_FIELDS: Final = ProcessorAttempt.__struct_fields__
_METADATA: Final = _INTENT_FIELDS.index("metadata")


def _intent(row: tuple[Any, ...]) -> PaymentIntent:
    fields = dict(zip(_INTENT_FIELDS, row[:-1], strict=True))
    fields["metadata"] = msgspec.json.decode(row[_METADATA]) if row[_METADATA] != "{}" else {}
    return PaymentIntent(**fields)


class PaymentsWorkspace:
    """The payments of one batch in memory."""

    def __init__(self, partition: PaymentsPartition, payments: dict[str, Payment], elsewhere: set[str]) -> None:
        self.partition = partition
        self.elsewhere = elsewhere  # aggregates that another partition owns
        self.payments = payments
        self.read_versions = {key: payment.intent.version for key, payment in payments.items()}
        self.changed: dict[str, PaymentIntent] = {}
        self.attempts_new: dict[tuple[str, int], ProcessorAttempt] = {}
        self.attempts_changed: dict[tuple[str, int], ProcessorAttempt] = {}
        self.txns: list[tuple[LedgerTxn, Command]] = []
        self.link_hash = b""

    def decide(self, command: Command, offset: int, now: int) -> Committed | Rejection:
        """Folds one command in. Raises UnbalancedPosting before anything of it is kept."""
        self._recall(command.aggregate_key)
        if self._is_misrouted(command):
            return MISROUTED
        context = Context(now=now, fees=self.partition.fees, processor=self.partition.processor)
        decision = domain.decide(self.payments.get(command.aggregate_key), command, context)
        if isinstance(decision, Rejection):
            return decision
        txns = self._post(decision, offset, now)
        self._keep(decision)
        self.txns.extend((txn, command) for txn in txns)
        intent = decision.intent
        return Committed(
            result=rendering.payment_intent(intent),
            version=intent.version,
            scope=intent.merchant_id,
            event_body={"payment_intent": intent, "processor_attempt": decision.attempt, "ledger_txns": txns},
        )

    def _recall(self, key: str) -> None:
        """A remembered payment becomes part of this workspace, as a copy: the batch may still fail."""
        remembered = self.partition.remembered.get(key)
        if remembered is not None and key not in self.payments:
            self.payments[key] = Payment(intent=remembered.intent, attempts=dict(remembered.attempts))
            self.read_versions[key] = remembered.intent.version

    def _is_misrouted(self, command: Command) -> bool:
        """Whether a producer of its own wrote it to a partition that does not own the aggregate."""
        if command.aggregate_key in self.payments:
            return command.aggregate_key in self.elsewhere
        if command.operation != "create_payment_intent":
            return False  # there is nothing it could change
        return partition_for(command.aggregate_key, PAYMENTS_PARTITIONS) != self.partition.partition

    def _post(self, decision: Decision, offset: int, now: int) -> list[LedgerTxn]:
        txns = []
        for number, posting in enumerate(decision.postings):
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
        intent, attempt = decision.intent, decision.attempt
        payment = self.payments.get(intent.id)
        if payment is None:
            payment = self.payments[intent.id] = Payment(intent=intent, attempts={})
        payment.intent = intent
        self.changed[intent.id] = intent
        if attempt is None:
            return
        identity = (attempt.intent_id, attempt.attempt)
        is_new = attempt.attempt not in payment.attempts or identity in self.attempts_new
        (self.attempts_new if is_new else self.attempts_changed)[identity] = attempt
        payment.attempts[attempt.attempt] = attempt

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
        if self.txns:
            found.extend(self._ledger())
        return found

    def _ledger(self) -> list[Statement]:
        partition = self.partition
        txns = [txn for txn, _ in self.txns]
        self.link_hash = link_hash(partition.hash, statements.chain_rows(txns))
        link = (
            partition.link + 1,
            txns[0].txn_id,
            txns[-1].txn_id,
            len(txns),
            partition.hash,
            self.link_hash,
        )
        return [
            statements.ledger_txns_insert(self.txns, partition.partition),
            statements.ledger_entries_insert(txns),
            (statements.SQL["ledger_chain_insert"], (partition.partition, *link)),
            statements.balances_add(txns, partition.partition),
        ]

    def committed(self) -> None:
        """The chain is one link longer, if the batch posted anything; what changed is remembered."""
        for key in self.changed:
            self.partition.remember(self.payments[key])
        if self.link_hash:
            self.partition.link += 1
            self.partition.hash = self.link_hash
