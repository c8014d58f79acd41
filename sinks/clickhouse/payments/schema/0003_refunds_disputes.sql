-- Refunds and disputes, every version of each; the newest are in the views that end in _current. Amounts are integer
-- minor units, and currency_exponent turns them into decimals. No metadata or other personal data is copied here.

create table if not exists refunds (
    kafka_partition   UInt16,
    seq               UInt64,
    id                String,
    version           UInt64,
    payment_intent    String,
    merchant_id       String,
    attempt           UInt32,
    amount            Int64,
    currency          LowCardinality(String),
    currency_exponent UInt8,
    state             LowCardinality(String),
    reason            LowCardinality(Nullable(String)),
    failure_reason    LowCardinality(Nullable(String)),
    from_pending      Int64,
    created_at        DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    updated_at        DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    index seq_range seq type minmax granularity 1
) engine = ReplacingMergeTree
partition by toYYYYMM(created_at)
order by (merchant_id, id, version)
settings non_replicated_deduplication_window = 10000;

create table if not exists disputes (
    kafka_partition   UInt16,
    seq               UInt64,
    id                String,
    version           UInt64,
    payment_intent    String,
    merchant_id       String,
    processor         LowCardinality(String),
    provider_ref      String,
    amount            Int64,
    currency          LowCardinality(String),
    currency_exponent UInt8,
    fee               Int64,
    reason            LowCardinality(Nullable(String)),
    state             LowCardinality(String),
    funds             LowCardinality(String),
    created_at        DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    updated_at        DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    index seq_range seq type minmax granularity 1
) engine = ReplacingMergeTree
partition by toYYYYMM(created_at)
order by (merchant_id, id, version)
settings non_replicated_deduplication_window = 10000;
