"""The derived tables of payments as projections, and balances, which are rebuilt from ledger transactions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from reconciliation.contract.postgres_table import PostgresTable
from schemas.fields.column import declared
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import psycopg

    from reconciliation.contract.compare import Row
    from reconciliation.contract.projection import Extent
    from sinks.streams.intake import Accepted

SQL: Final = queries("reconciliation.payments", "replayed_tables.sql")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def compared(record: type[Struct]) -> tuple[str, ...]:
    """The columns of a record that a replay compares: all of them."""
    return tuple(field.name for field in declared(record))


class PaymentsTable(PostgresTable):
    """A table of payments."""

    sql = SQL


class AccountBalance(PaymentsTable):
    """Balances per account and partition, from the ledger transactions that events carry."""

    name = "account_balance"
    _table = "account_balance"
    columns: tuple[str, ...] = ("account_id", "partition", "currency", "debits", "credits", "version")
    key_width = 2

    def __init__(self, snapshot: psycopg.Connection, writer: psycopg.Connection, topic: str) -> None:
        super().__init__(snapshot, writer, topic)
        self._first_txns: dict[int, int] = {}

    def apply(self, events: Sequence[Accepted]) -> None:
        """Adds the entries of these events, one statement for all of them."""
        sums: dict[tuple[str, int, str], list[int]] = {}
        for taken in events:
            body: dict[str, Any] = taken.event.body
            for txn in body["ledger_txns"]:
                self._first_txns.setdefault(taken.partition, txn["txn_id"])
                for entry in txn["entries"]:
                    total = sums.setdefault((entry["account_id"], taken.partition, entry["currency"]), [0, 0, 0])
                    total[0] += entry["debit"]
                    total[1] += entry["credit"]
                    total[2] += 1
        self._add([(*key, *total) for key, total in sums.items()])

    def complete(self, extent: Extent, *, from_zero: bool) -> None:
        """A replay from later on stands on what the ledger itself held before."""
        if from_zero:
            return
        for partition in extent.first_seqs:
            first = self._first_txns.get(partition, 2**63 - 1)
            self._add(list(self._stream(self._snapshot, "balances_before", partition=partition, txn_id=first)))

    def live_rows(self, extent: Extent) -> Iterator[Row]:
        """The live balances of the replayed partitions."""
        return self._stream(self._snapshot, "balances_live", partitions=list(extent.first_seqs))

    def shadow_rows(self, extent: Extent) -> Iterator[Row]:
        """The rebuilt balances."""
        return self._stream(self._writer, "balances_shadow", partitions=list(extent.first_seqs))

    def exchange(self) -> None:
        """Exchanges the contents in the writer's transaction; owners wait until it ends."""
        self._writer.execute("select account_balance_exchange()")

    def hold(self) -> None:
        """Holds the owners' commits back until the writer's transaction ends."""
        self._writer.execute("select account_balance_hold()")

    def _add(self, rows: Sequence[Row]) -> None:
        if not rows:
            return
        accounts, partitions, currencies, debits, credits_, entries = (
            list(column) for column in zip(*rows, strict=True)
        )
        self._writer.execute(
            SQL["balances_add"].encode(),
            {
                "accounts": accounts,
                "partitions": partitions,
                "currencies": currencies,
                "debits": debits,
                "credits": credits_,
                "entries": entries,
            },
        )


def as_row(record: type[Struct], said: dict[str, Any]) -> dict[str, Any]:
    """A record of an event as Postgres reads a row in JSON: times as text, texts by name as JSON of their own."""
    row = dict(said)
    for field in declared(record):
        value = said.get(field.name)
        if value is not None and field.kind == "time":
            row[field.name] = (_EPOCH + timedelta(microseconds=value)).isoformat()
        elif value is not None and field.kind == "texts":
            row[field.name] = msgspec.json.encode(value).decode()
    return row
