"""The whole ledger in one snapshot, written line by line in the words of another bookkeeping program.

It is read through cursors: memory does not grow with it. What the owners say of balances (``account_balance``) comes
last, for the program to compare with what it added up itself.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import psycopg

from schemas.payments import limits as payments_limits
from sinks import limits as sinks_limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_QUERIES: Final = queries("reconciliation.payments.export", "ledger.sql")
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


class Words(Protocol):
    """How a program is told: the modules ``beancount`` and ``hledger`` are these."""

    @property
    def HEAD(self) -> str:  # noqa: N802 - a constant of the module
        """The first line."""

    def opening(self, account_id: str, currency: str, day: str) -> str:
        """The account exists from this day on."""

    def transaction(self, txn: Txn, lines: Iterable[Line]) -> str:
        """One transaction with what identifies it."""

    def assertion(self, account_id: str, currency: str, balance_minor: int, day: str) -> str:
        """What the account must hold at the beginning of this day, to the last unit."""


def export_ledger(postgres_dsn: str, words: Words) -> Iterator[str]:
    """The file in pieces. A reader's role is enough. While it runs, vacuum keeps what was deleted since its start."""
    with psycopg.connect(
        postgres_dsn, connect_timeout=sinks_limits.POSTGRES_CONNECT_TIMEOUT_S, application_name="millrace-export"
    ) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        connection.execute(f"set local statement_timeout = {payments_limits.EXPORT_STATEMENT_TIMEOUT_MS}")
        yield words.HEAD
        for account_id, currency, day in _rows(connection, "accounts"):
            yield words.opening(account_id, currency, day)
        for txn, lines in groupby(_rows(connection, "lines"), key=lambda row: row[_TXN]):
            yield words.transaction(Txn(*txn), (Line(*row[_TXN.stop :]) for row in lines))
        for account_id, currency, balance, day in _rows(connection, "balances"):
            yield words.assertion(account_id, currency, int(balance), day)


def _rows(connection: psycopg.Connection, query: str) -> Iterator[Row]:
    """The rows of a query, a bounded number of them in memory."""
    with connection.cursor(f"export_{query}") as cursor:
        cursor.itersize = payments_limits.EXPORT_FETCH_ROWS
        cursor.execute(_QUERIES[query])
        yield from cursor
