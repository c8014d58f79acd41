"""Payments as one owned partition: loads payments, journal entries and accounts; remembers the payments under way.

Every aggregate of a batch is read once and written once, whatever the number of commands. The ledger chain moves on
after the commit only, and so does what is remembered of payments under way: while the lease holds nobody else writes
them, every batch proves the lease in its own transaction, and the compare-and-set on the version proves it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dataflows.owner.batch import Statement
from dataflows.payments import account_workspace, statements
from dataflows.payments.account_workspace import AccountWorkspace
from dataflows.payments.domain.accounts.account import PayoutTerms
from dataflows.payments.domain.commands import BEGINS_SOMETHING
from dataflows.payments.domain.policies.fees import FeeSchedule
from dataflows.payments.domain.stored import payments_of
from dataflows.payments.partition_memory import PartitionMemory
from dataflows.payments.policies import SQL, PolicyBook
from dataflows.payments.workspace import PaymentsWorkspace
from schemas.payments import attempt_outcome, repair
from schemas.records import Command
from sinks.postgres import arrays
from sinks.postgres.ledger_chain import GENESIS
from sinks.postgres.owner_connection import OwnerConnection

_JOURNAL: Final = "jr_"  # what the id of a journal entry begins with
_OF_NO_PAYMENT: Final = (_JOURNAL, "ma_")  # and that of a merchant's account


class PaymentsPartition:
    """The payments state of one owned partition."""

    def __init__(
        self,
        connection: OwnerConnection,
        partition: int,
        fees: FeeSchedule,
        processor: str,
        policies: PolicyBook,
        payouts: PayoutTerms | None = None,
    ) -> None:
        policies.recent(connection)
        row = connection.execute(statements.SQL["chain_read"], (partition,)).fetchone()
        link, hash_ = row or (0, GENESIS)
        self.memory = PartitionMemory(
            partition=partition, fees=fees, processor=processor, policies=policies, link=link, hash=hash_
        )
        self._payouts = payouts
        self._asked: tuple[str, ...] = ()  # what the last reads are of, in their order
        self._frozen: frozenset[str] | None = None  # by the last reads; of them, who begins something is asked again
        self._beginning: frozenset[str] = frozenset()

    def reads(self, keys: list[str], commands: Sequence[Command]) -> list[Statement]:
        """The intents of a batch with all their parts, without those that are remembered; journal entries; accounts.

        A refusal is the answer to its key for ever, so who is refused as frozen is looked up in the commit itself.
        """
        journals = [key for key in keys if key.startswith(_JOURNAL)]
        unknown = [key for key in keys if key not in self.memory.remembered and not key.startswith(_OF_NO_PAYMENT)]
        wanted: dict[str, Statement] = {}
        if unknown:
            ids = (arrays.Texts(unknown),)
            wanted = {
                "intents": (statements.SQL["intents_read"], ids),
                "attempts": (statements.SQL["attempts_read"], ids),
            }
        if journals:
            wanted["journals"] = (statements.SQL["journals_read"], (arrays.Texts(journals),))
            if proposals := repair.proposals_named(commands):
                wanted["proposals"] = (statements.SQL["proposals_read"], (arrays.Texts(proposals),))
        if outcomes := attempt_outcome.proposals_named(commands):
            wanted["outcomes"] = (statements.SQL["outcomes_read"], (arrays.Texts(outcomes),))
        wanted |= account_workspace.reads(commands)
        self._frozen = self._beginning = self.memory.policies.current.frozen_merchants
        if self._frozen:
            self._beginning = self._frozen.intersection(c.scope for c in commands if c.operation in BEGINS_SOMETHING)
        if self._beginning:
            wanted["frozen"] = (SQL["merchants_still_frozen"], (arrays.Texts(sorted(self._beginning)),))
        self._asked = tuple(wanted)
        return list(wanted.values())

    def begin(self, rows: Sequence[list[tuple[Any, ...]]]) -> PaymentsWorkspace:
        """A workspace over the rows of the last ``reads``; over nothing for a batch without commands."""
        found = dict(zip(self._asked, rows, strict=True)) if rows else {}
        intents = found.pop("intents", [])
        payments = payments_of(intents, found.pop("attempts", []))
        elsewhere = {row[0] for row in intents if row[-1] != self.memory.partition}
        journals = {row[0] for row in found.pop("journals", [])}
        approved = [_repair(row) for row in found.pop("proposals", [])]
        approved += [_outcome(row) for row in found.pop("outcomes", [])]
        let_go = self._beginning.difference(merchant for (merchant,) in found.pop("frozen", []))
        frozen = self._frozen - let_go if self._frozen and let_go else self._frozen
        rates = self.memory.policies.current.reference_rates.document
        accounts = AccountWorkspace(self.memory.partition, found, rates, self._payouts)
        return PaymentsWorkspace(self.memory, payments, elsewhere, journals, approved, accounts, frozen)


def _outcome(row: tuple[Any, ...]) -> Command:
    proposal_id, operation_id, intent_id, attempt, processor, fact = row
    return attempt_outcome.command_of(proposal_id, operation_id, intent_id, attempt, processor, fact, issued_at=0)


def _repair(row: tuple[Any, ...]) -> Command:
    proposal_id, template, entries, note, author, approver = row
    return repair.command_of(proposal_id, template, entries, note, author, approver, issued_at=0)
