"""Looks at the result from every side and compares: ledger with itself, with the processor, with ClickHouse."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.rows import dict_row

from reconciliation.payments.processor_book import read_books
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compose.settings.addresses import Addresses
    from reconciliation.payments.processor_book import Entry

_QUERIES: Final = queries("compose.proof.kit", "evidence.sql")
_BOOK_SECTION: Final = {
    "capture": "captured",
    "authorize": "authorized",
    "void": "voided",
    "refund_succeeded": "refunded",
}
_VOLUME_COLUMNS: Final = (
    "merchant_id",
    "currency",
    "hour",
    "intents",
    "intents_succeeded",
    "intents_refused",
    "intents_canceled",
    "intents_open",
    "requested_minor",
    "received_minor",
)
_VOLUME_CLICKHOUSE: Final = (
    f"select {', '.join(_VOLUME_COLUMNS)} from payment_volume_hourly order by merchant_id, currency, hour"  # noqa: S608 - our own names
)

Row = dict[str, Any]


@dataclass(slots=True)
class BookLine:
    """Processor and ledger in one currency and kind of effect: how many and how much."""

    book_count: int = 0
    book_minor: int = 0
    ledger_count: int = 0
    ledger_minor: int = 0


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect in the processor's book or in the ledger."""

    section: str
    reference: str
    currency: str
    amount: int


@dataclass(slots=True)
class Evidence:
    """Everything that the report shows, and what differs."""

    counts: dict[str, int] = field(default_factory=dict)
    trial_balance: list[Row] = field(default_factory=list)
    book: dict[tuple[str, str], BookLine] = field(default_factory=dict)  # by (section, currency)
    volume_postgres: list[Row] = field(default_factory=list)
    volume_clickhouse: list[Row] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)


def gather(addresses: Addresses) -> Evidence:
    """The evidence of a stack in which nothing moves any more."""
    found = Evidence()
    with psycopg.connect(addresses.postgres_reader_dsn, row_factory=dict_row) as connection:
        found.counts = connection.execute(_QUERIES["counts"]).fetchone() or {}
        found.trial_balance = connection.execute(_QUERIES["trial_balance"]).fetchall()
        effects = connection.execute(_QUERIES["ledger_effects"]).fetchall()
        found.volume_postgres = connection.execute(_QUERIES["volume_hourly"]).fetchall()
    found.volume_clickhouse = _volume_in_clickhouse(addresses.clickhouse_url)
    found.differences += unbalanced(found.trial_balance)
    books = read_books(addresses.book_urls)
    found.differences += [f"{row['operation_id']}: {row['reason']}" for row in books.doubled]
    found.book, apart = compare_books(_of_book(books.entries), _of_ledger(effects))
    found.differences += apart
    found.differences += compare_volumes(found.volume_postgres, found.volume_clickhouse)
    return found


def unbalanced(trial_balance: list[Row]) -> list[str]:
    """The currencies whose debits are not their credits."""
    sums: dict[str, int] = defaultdict(int)
    for row in trial_balance:
        sums[row["currency"]] += row["debits"] - row["credits"]
    return [f"the ledger is {off} minor units off balance in {currency}" for currency, off in sums.items() if off]


def compare_books(
    book: Mapping[str, Effect], ledger: Mapping[str, Effect]
) -> tuple[dict[tuple[str, str], BookLine], list[str]]:
    """The sums of both sides, and every operation that is not the same on both."""
    lines: dict[tuple[str, str], BookLine] = defaultdict(BookLine)
    for effect in book.values():
        line = lines[effect.section, effect.currency]
        line.book_count, line.book_minor = line.book_count + 1, line.book_minor + effect.amount
    for effect in ledger.values():
        line = lines[effect.section, effect.currency]
        line.ledger_count, line.ledger_minor = line.ledger_count + 1, line.ledger_minor + effect.amount
    apart = [
        f"{operation_id}: the processor says {book.get(operation_id)}, the ledger {ledger.get(operation_id)}"
        for operation_id in sorted(book.keys() | ledger.keys())
        if book.get(operation_id) != ledger.get(operation_id)
    ]
    return dict(sorted(lines.items())), apart


def compare_volumes(postgres: list[Row], clickhouse: list[Row]) -> list[str]:
    """The rows of one hour, merchant and currency that are not the same in both databases."""

    def keyed(rows: list[Row]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        return {
            tuple(row[c] for c in _VOLUME_COLUMNS[:3]): tuple(int(row[c]) for c in _VOLUME_COLUMNS[3:]) for row in rows
        }

    ours, theirs = keyed(postgres), keyed(clickhouse)
    return [
        f"{', '.join(map(str, key))}: Postgres says {ours.get(key)}, ClickHouse {theirs.get(key)}"
        for key in sorted(ours.keys() | theirs.keys())
        if ours.get(key) != theirs.get(key)
    ]


def _volume_in_clickhouse(url: str) -> list[Row]:
    client = ClickHouseConnection(url=url).client()
    try:
        rows = [dict(row) for row in client.query(_VOLUME_CLICKHOUSE).named_results()]
    finally:
        client.close()
    for row in rows:
        row["hour"] = row["hour"].replace(tzinfo=row["hour"].tzinfo or UTC).astimezone(UTC)
    return rows


def _of_book(entries: Mapping[str, Entry]) -> dict[str, Effect]:
    return {
        operation_id: Effect(entry.section, entry.reference, entry.currency, entry.amount)
        for operation_id, entry in entries.items()
    }


def _of_ledger(rows: list[Row]) -> dict[str, Effect]:
    return {
        row["operation_id"]: Effect(_BOOK_SECTION[row["kind"]], row["reference"], row["currency"], row["amount"])
        for row in rows
    }
