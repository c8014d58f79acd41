"""The ledger transactions of one batch: their places, their link of the hash chain, and the balances that they move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dataflows.owner.batch import Statement
from dataflows.payments import ledger_statements
from dataflows.payments.domain.ledger.posting import Posting, is_balanced
from dataflows.payments.partition_memory import PartitionMemory
from schemas.errors import UnbalancedPosting
from schemas.payments.records import LedgerTxn
from schemas.records import Command
from sinks.postgres.ledger_chain import link_hash

TXNS_PER_COMMAND_MAX: Final = 16
_OFFSETS_PER_PARTITION: Final = 2**44  # commands a partition can hold before a txn_id would reach the next one


def txn_id(partition: int, offset: int, number: int) -> int:
    """The place of a ledger transaction: ascending in a partition, equal when the same command is decided again."""
    return (partition * _OFFSETS_PER_PARTITION + offset) * TXNS_PER_COMMAND_MAX + number


class LedgerBatch:
    """What one batch posts."""

    def __init__(self, memory: PartitionMemory) -> None:
        self._memory = memory
        self.txns: list[tuple[LedgerTxn, Command]] = []
        self._link_hash = b""

    def placed(self, postings: Sequence[Posting], offset: int, now: int) -> list[LedgerTxn]:
        """The postings as transactions with their places; nothing is kept yet. Raises UnbalancedPosting."""
        if len(postings) > TXNS_PER_COMMAND_MAX:
            raise ValueError("a command has more postings than places for them")
        txns = []
        for number, posting in enumerate(postings):
            if not is_balanced(posting.entries):
                raise UnbalancedPosting(reference=posting.reference)
            txns.append(
                LedgerTxn(
                    txn_id=txn_id(self._memory.partition, offset, number),
                    reference=posting.reference,
                    kind=posting.kind,
                    effective_at=now,
                    entries=posting.entries,
                )
            )
        return txns

    def writes(self) -> list[Statement]:
        """The rows of the ledger; nothing for a batch that posted nothing."""
        if not self.txns:
            return []
        memory, txns = self._memory, [txn for txn, _ in self.txns]
        self._link_hash = link_hash(memory.hash, ledger_statements.chain_rows(txns))
        return [
            ledger_statements.ledger_txns_insert(self.txns, memory.partition),
            ledger_statements.ledger_entries_insert(txns),
            ledger_statements.chain_insert(memory.partition, memory.link + 1, txns, memory.hash, self._link_hash),
            ledger_statements.balances_add(txns, memory.partition),
        ]

    def committed(self) -> None:
        """The chain is one link longer, if the batch posted anything."""
        if self._link_hash:
            self._memory.link += 1
            self._memory.hash = self._link_hash
