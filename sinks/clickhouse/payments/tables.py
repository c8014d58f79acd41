"""The columns of payments in ClickHouse that the sink fills. Their definitions are in ``schema``."""

from __future__ import annotations

from typing import Final

from schemas.payments.records import Dispute, MerchantAccount, PaymentIntent, Payout, ProcessorAttempt, Refund
from sinks.clickhouse.tables import Table, of_record

EVENTS: Final = Table(
    name="events",
    columns=(
        *("kafka_partition", "seq", "event_id", "event_type", "schema_version", "occurred_at", "trace_id"),
        *("aggregate_key", "version", "merchant_id", "operation", "state", "currency", "attempt_status"),
        *("ledger_txns", "ledger_lines"),
    ),
    month_of="occurred_at",
)
LEDGER_LINES: Final = Table(
    name="ledger_lines",
    columns=(
        *("kafka_partition", "seq", "txn_id", "line", "reference", "kind", "account_id", "debit", "credit", "currency"),
        *("currency_exponent", "merchant_id", "aggregate_key", "effective_at", "occurred_at"),
    ),
    row_key=("txn_id", "line"),
    month_of="occurred_at",
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
