"""The ledger as a beancount file: accounts opened, one transaction for each of ours, and the balances asserted.

The assertions come from ``account_balance``, the transactions from the lines: beancount adds up the lines by its own
code, so its silence proves that both are the same. Amounts are integers up to the last step, and never floats. The
ledger is read in one snapshot through cursors: memory does not grow with it.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg

from reconciliation.export.accounts import beancount_account
from schemas import limits
from schemas.currency import format_minor
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_QUERIES: Final = queries("reconciliation.export", "ledger.sql")
_HEAD: Final = ';; Written by "millrace export": the whole ledger at one moment. Debits are above zero.\n'
_ESCAPES: Final = str.maketrans(
    {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\f": "\\f", "\b": "\\b"}
)
_TXN: Final = slice(0, 5)

Row = tuple[Any, ...]


class Txn(NamedTuple):
    """What a transaction says of itself."""

    txn_id: int
    reference: str
    kind: str
    aggregate: str
    day: str


class Line(NamedTuple):
    """One line of a transaction; a debit is above zero."""

    account_id: str
    currency: str
    amount: int


def export_ledger(postgres_dsn: str) -> Iterator[str]:
    """The file in pieces. A reader's role is enough. While it runs, vacuum keeps what was deleted since its start."""
    with psycopg.connect(
        postgres_dsn, connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S, application_name="millrace-export"
    ) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        connection.execute(f"set local statement_timeout = {limits.EXPORT_STATEMENT_TIMEOUT_MS}")
        yield _HEAD
        for account_id, currency, day in _rows(connection, "accounts"):
            yield opening(account_id, currency, day)
        for txn, lines in groupby(_rows(connection, "lines"), key=lambda row: row[_TXN]):
            yield transaction(Txn(*txn), (Line(*row[_TXN.stop :]) for row in lines))
        for account_id, currency, balance, day in _rows(connection, "balances"):
            yield assertion(account_id, currency, int(balance), day)


def opening(account_id: str, currency: str, day: str) -> str:
    """The account exists from this day on."""
    name = beancount_account(account_id, currency)
    return f"{day} open {name} {currency}\n  account: {quoted(account_id)}\n"


def transaction(txn: Txn, lines: Iterable[Line]) -> str:
    """One transaction with what identifies it."""
    head = [
        f"\n{txn.day} * {quoted(txn.kind)}",
        f'  txn_id: "{txn.txn_id}"',
        f"  reference: {quoted(txn.reference)}",
        f"  kind: {quoted(txn.kind)}",
        f"  aggregate: {quoted(txn.aggregate)}",
    ]
    postings = [
        f"  {beancount_account(line.account_id, line.currency)}  "
        f"{format_minor(line.amount, line.currency)} {line.currency}"
        for line in lines
    ]
    return "\n".join([*head, *postings, ""])


def assertion(account_id: str, currency: str, balance_minor: int, day: str) -> str:
    """What the account must hold at the beginning of this day, to the last unit: beancount alone would forgive one."""
    name = beancount_account(account_id, currency)
    return f"{day} balance {name}  {format_minor(balance_minor, currency)} ~ 0 {currency}\n"


def quoted(text: str) -> str:
    """A string of beancount."""
    return f'"{text.translate(_ESCAPES)}"'


def _rows(connection: psycopg.Connection, query: str) -> Iterator[Row]:
    """The rows of a query, a bounded number of them in memory."""
    with connection.cursor(f"export_{query}") as cursor:
        cursor.itersize = limits.EXPORT_FETCH_ROWS
        cursor.execute(_QUERIES[query])
        yield from cursor
