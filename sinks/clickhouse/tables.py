"""The tables in ClickHouse: their numbered definitions, and which columns the sink fills.

The definitions say ``if not exists`` or ``or replace``: two processes that apply them at once do no harm.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Final

from clickhouse_connect.driver.exceptions import ClickHouseError

from schemas.errors import InvariantViolation, Unavailable

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
PAYMENT_INTENTS: Final = Table(
    name="payment_intents",
    columns=(
        *("kafka_partition", "seq", "id", "version", "merchant_id", "amount", "currency", "currency_exponent", "state"),
        *("capture_method", "processor", "amount_capturable", "amount_received", "amount_refunded", "amount_disputed"),
        *("last_payment_error", "cancellation_reason", "latest_attempt", "created_at", "updated_at"),
    ),
)
PROCESSOR_ATTEMPTS: Final = Table(
    name="processor_attempts",
    columns=(
        *("kafka_partition", "seq", "intent_id", "attempt", "version", "merchant_id", "kind", "status", "operation_id"),
        *("processor", "amount", "currency", "currency_exponent", "parent_ref", "final", "provider_ref", "error_code"),
        *("created_at", "updated_at"),
    ),
    row_key=("attempt",),
)
REFUNDS: Final = Table(
    name="refunds",
    columns=(
        *("kafka_partition", "seq", "id", "version", "payment_intent", "merchant_id", "attempt", "amount", "currency"),
        *("currency_exponent", "state", "reason", "failure_reason", "from_pending", "created_at", "updated_at"),
        "pending_reason",
    ),
)
DISPUTES: Final = Table(
    name="disputes",
    columns=(
        *("kafka_partition", "seq", "id", "version", "payment_intent", "merchant_id", "processor", "provider_ref"),
        *("amount", "currency", "currency_exponent", "fee", "reason", "state", "funds", "created_at", "updated_at"),
    ),
)
MERCHANT_ACCOUNTS: Final = Table(
    name="merchant_accounts",
    columns=("kafka_partition", "seq", "id", "version", "merchant_id", "state", "created_at", "updated_at"),
)
PAYOUTS: Final = Table(
    name="payouts",
    columns=(
        *("kafka_partition", "seq", "id", "version", "account_id", "merchant_id", "amount", "currency"),
        *("currency_exponent", "state", "failure_reason", "created_at", "updated_at"),
    ),
)
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
