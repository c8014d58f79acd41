"""The tables in ClickHouse: their numbered definitions, and which columns the sink fills.

The definitions say ``if not exists`` or ``or replace``: two processes that apply them at once do no harm.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Final

from clickhouse_connect.driver.exceptions import ClickHouseError
from msgspec import Struct

from schemas.column import Declared, declared
from schemas.errors import InvariantViolation, Unavailable
from schemas.records import Dispute, MerchantAccount, PaymentIntent, Payout, ProcessorAttempt, Refund

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

_VERSIONS: Final = (
    "create table if not exists schema_version"
    " (file String, sha256 String, applied_at DateTime64(6, 'UTC') default now64(6))"
    " engine = ReplacingMergeTree order by file"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table: the columns of an inserted row, in order, and the columns that identify a row within its event."""

    name: str
    columns: tuple[str, ...]
    #: what tells the rows of one event apart; together with (kafka_partition, seq) it is a row's identity
    row_key: tuple[str, ...] = ()

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that tell a row from every other."""
        return ("kafka_partition", "seq", *self.row_key)


def analytical(record: type[Struct]) -> list[Declared]:
    """The fields of a record that analytics has."""
    return [field for field in declared(record) if field.column.analytical]


def of_record(name: str, record: type[Struct], *further: str, row_key: tuple[str, ...] = ()) -> Table:
    """The table of a record: a row for every state of it. ``further``: what its event says beside it, in order."""
    fields = tuple(field.column.shown or field.name for field in analytical(record))
    return Table(name=name, columns=("kafka_partition", "seq", *further, *fields), row_key=row_key)


EVENTS: Final = Table(
    name="events",
    columns=(
        *("kafka_partition", "seq", "event_id", "event_type", "schema_version", "occurred_at", "trace_id"),
        *("aggregate_key", "version", "merchant_id", "operation", "state", "currency", "attempt_status"),
        *("ledger_txns", "ledger_lines"),
    ),
)
LEDGER_LINES: Final = Table(
    name="ledger_lines",
    columns=(
        *("kafka_partition", "seq", "txn_id", "line", "reference", "kind", "account_id", "debit", "credit", "currency"),
        *("currency_exponent", "merchant_id", "aggregate_key", "effective_at", "occurred_at"),
    ),
    row_key=("txn_id", "line"),
)
PAYMENT_INTENTS: Final = of_record("payment_intents", PaymentIntent, "currency_exponent")
PROCESSOR_ATTEMPTS: Final = of_record(
    "processor_attempts", ProcessorAttempt, "version", "merchant_id", "currency_exponent", row_key=("attempt",)
)
REFUNDS: Final = of_record("refunds", Refund, "currency_exponent")
DISPUTES: Final = of_record("disputes", Dispute, "currency_exponent")
MERCHANT_ACCOUNTS: Final = of_record("merchant_accounts", MerchantAccount)
PAYOUTS: Final = of_record("payouts", Payout, "currency_exponent")
TABLES: Final = (
    *(EVENTS, LEDGER_LINES, PAYMENT_INTENTS, PROCESSOR_ATTEMPTS, REFUNDS, DISPUTES),
    *(MERCHANT_ACCOUNTS, PAYOUTS),
)
BY_NAME: Final = {table.name: table for table in TABLES}


def schema_files() -> list[tuple[str, str]]:
    """Name and text of every definition file, in order."""
    folder = resources.files("sinks.clickhouse") / "schema"
    return [(f.name, f.read_text()) for f in sorted(folder.iterdir(), key=lambda f: f.name) if f.name.endswith(".sql")]


def statements(text: str) -> list[str]:
    """The statements of a definition file; each ends with a semicolon at the end of a line."""
    bare = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    return [part.strip().removesuffix(";") for part in bare.split(";\n") if part.strip(" ;\n")]


def apply_schema(client: Client) -> list[str]:
    """Brings the tables and views up to date and returns the files applied now; repeating it changes nothing.

    Raises InvariantViolation when a file with tables was edited after it was applied (views may be edited), and
    Unavailable when the server refuses or does not answer.
    """
    try:
        client.command(_VERSIONS)
        rows = client.query("select file, sha256 from schema_version final").result_rows
        known: dict[str, str] = {file: digest for file, digest in rows}  # noqa: C416 - rows are sequences, not pairs
        return [file for file, text in schema_files() if _apply(client, file, text, known)]
    except (ClickHouseError, OSError) as error:
        raise Unavailable(f"ClickHouse refuses its tables: {str(error)[:300]}") from error


def _apply(client: Client, file: str, text: str, known: dict[str, str]) -> bool:
    digest = hashlib.sha256(text.encode()).hexdigest()
    if known.get(file) == digest:
        return False
    if file in known and ("create table" in text or "alter table" in text):
        raise InvariantViolation(f"{file} was edited after it was applied; write a new file instead")
    for statement in statements(text):
        client.command(statement)
    client.insert("schema_version", [[file, digest]], column_names=["file", "sha256"])
    return True
