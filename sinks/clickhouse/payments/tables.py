"""The columns of payments in ClickHouse that the sink fills. Their definitions are in ``schema``."""

from __future__ import annotations

from typing import Final

from sinks.clickhouse.tables import Table

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
