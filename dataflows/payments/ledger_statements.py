"""The set-based writes of the ledger: a batch's transactions, their lines, its link of the chain, and the balances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dataflows.owner.batch import Statement
from dataflows.payments.statements import SQL
from schemas.payments.records import LedgerTxn
from schemas.records import Command
from sinks.postgres.arrays import Bigints, Blobs, Integers, Numbers, Smallints, Texts, Times
from sinks.postgres.copied import copied
from sinks.postgres.ledger_chain import ChainRow


def ledger_txns_insert(txns: Sequence[tuple[LedgerTxn, Command]], partition: int) -> Statement:
    """Ledger transactions with the command that caused each."""
    return copied(SQL["ledger_txns_insert"]), (
        Integers([partition] * len(txns)),
        Bigints([txn.txn_id for txn, _ in txns]),
        Texts([txn.reference for txn, _ in txns]),
        Texts([txn.kind for txn, _ in txns]),
        Texts([command.aggregate_key for _, command in txns]),
        Texts([command.trace_id for _, command in txns]),
        Times([txn.effective_at for txn, _ in txns]),
    )


def ledger_entries_insert(txns: Sequence[LedgerTxn]) -> Statement:
    """All lines of these transactions in one statement: the database checks the balance over the whole of it."""
    lines = [(txn, number, entry) for txn in txns for number, entry in enumerate(txn.entries)]
    return copied(SQL["ledger_entries_insert"]), (
        Bigints([txn.txn_id for txn, _, _ in lines]),
        Smallints([number for _, number, _ in lines]),
        Texts([entry.account_id for _, _, entry in lines]),
        Bigints([entry.debit for _, _, entry in lines]),
        Bigints([entry.credit for _, _, entry in lines]),
        Texts([entry.currency for _, _, entry in lines]),
        Times([txn.effective_at for txn, _, _ in lines]),
    )


def chain_rows(txns: Sequence[LedgerTxn]) -> Iterator[ChainRow]:
    """The entries as the hash chain reads them."""
    for txn in txns:
        for number, e in enumerate(txn.entries):
            head = (txn.txn_id, txn.reference, txn.kind, txn.effective_at)
            yield (*head, number, e.account_id, e.debit, e.credit, e.currency)


def chain_insert(partition: int, link: int, txns: Sequence[LedgerTxn], prev_hash: bytes, hash_: bytes) -> Statement:
    """The link over these transactions."""
    return SQL["ledger_chain_insert"], (
        Integers([partition]),
        Bigints([link]),
        Bigints([txns[0].txn_id]),
        Bigints([txns[-1].txn_id]),
        Integers([len(txns)]),
        Blobs([prev_hash]),
        Blobs([hash_]),
    )


def balances_add(txns: Sequence[LedgerTxn], partition: int) -> Statement:
    """The sums of a batch per account: hot accounts cost one row a batch, not one a command."""
    sums: dict[str, list[int]] = {}
    currencies: dict[str, str] = {}
    for txn in txns:
        for entry in txn.entries:
            total = sums.setdefault(entry.account_id, [0, 0, 0])
            total[0] += entry.debit
            total[1] += entry.credit
            total[2] += 1
            currencies[entry.account_id] = entry.currency
    accounts = sorted(sums)
    return SQL["balances_add"], (
        Integers([partition] * len(accounts)),
        Texts(accounts),
        Texts([currencies[a] for a in accounts]),
        Numbers([sums[a][0] for a in accounts]),
        Numbers([sums[a][1] for a in accounts]),
        Bigints([sums[a][2] for a in accounts]),
    )
