-- The analyst's tables. Every row says which event made it (kafka_partition, seq); amounts are integer minor units, and
-- currency_exponent turns them into decimals. No payment method, metadata or other personal data is copied here.
-- The window makes ClickHouse remember that many block tokens per table: without it a token has no effect at all.

create table if not exists events (
    kafka_partition  UInt16,
    seq              UInt64,
    event_id         String,
    event_type       LowCardinality(String),
    schema_version   UInt16,
    occurred_at      DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    trace_id         String,
    aggregate_key    String,
    version          UInt64,
    merchant_id      String,
    operation        LowCardinality(String),
    state            LowCardinality(String),
    currency         LowCardinality(String),
    attempt_status   LowCardinality(String),  -- '' when the commit touched no attempt
    ledger_txns      UInt16,
    ledger_lines     UInt16,
    index seq_range seq type minmax granularity 1
) engine = MergeTree
partition by toYYYYMM(occurred_at)
order by (merchant_id, occurred_at, kafka_partition, seq)
settings non_replicated_deduplication_window = 10000;

-- line is the number within its transaction, as in Postgres.
create table if not exists ledger_lines (
    kafka_partition   UInt16,
    seq               UInt64,
    txn_id            Int64,
    line              UInt16,
    reference         String,
    kind              LowCardinality(String),
    account_id        String,
    account_kind      LowCardinality(String) materialized splitByChar(':', account_id)[1],
    debit             Int64,
    credit            Int64,
    currency          LowCardinality(String),
    currency_exponent UInt8,
    merchant_id       String,
    aggregate_key     String,
    effective_at      DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    occurred_at       DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    index seq_range seq type minmax granularity 1
) engine = MergeTree
partition by toYYYYMM(occurred_at)
order by (account_id, effective_at, kafka_partition, seq, txn_id, line)
settings non_replicated_deduplication_window = 10000;

-- Every version of every intent; the newest is in payment_intents_current.
create table if not exists payment_intents (
    kafka_partition     UInt16,
    seq                 UInt64,
    id                  String,
    version             UInt64,
    merchant_id         String,
    amount              Int64,
    currency            LowCardinality(String),
    currency_exponent   UInt8,
    state               LowCardinality(String),
    capture_method      LowCardinality(String),
    processor           LowCardinality(String),
    amount_capturable   Int64,
    amount_received     Int64,
    amount_refunded     Int64,
    amount_disputed     Int64,
    last_payment_error  Nullable(String),
    cancellation_reason Nullable(String),
    latest_attempt      UInt32,
    created_at          DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    updated_at          DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    index seq_range seq type minmax granularity 1
) engine = ReplacingMergeTree
partition by toYYYYMM(created_at)
order by (merchant_id, id, version)
settings non_replicated_deduplication_window = 10000;

-- Every state of every attempt, by the version of its intent; the newest is in processor_attempts_current.
create table if not exists processor_attempts (
    kafka_partition   UInt16,
    seq               UInt64,
    intent_id         String,
    attempt           UInt32,
    version           UInt64,
    merchant_id       String,
    kind              LowCardinality(String),
    status            LowCardinality(String),
    operation_id      String,
    processor         LowCardinality(String),
    amount            Int64,
    currency          LowCardinality(String),
    currency_exponent UInt8,
    parent_ref        Nullable(String),
    final             Bool,
    provider_ref      Nullable(String),
    error_code        Nullable(String),
    created_at        DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    updated_at        DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    index seq_range seq type minmax granularity 1
) engine = ReplacingMergeTree
partition by toYYYYMM(created_at)
order by (merchant_id, intent_id, attempt, version)
settings non_replicated_deduplication_window = 10000;
