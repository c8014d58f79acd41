-- Merchants' accounts and payouts, every version of each. Amounts are integer minor units, and currency_exponent turns them
-- into decimals. No destination, metadata or other personal data is copied here.

create table if not exists merchant_accounts (
    kafka_partition   UInt16,
    seq               UInt64,
    id                String,
    version           UInt64,
    merchant_id       String,
    state             LowCardinality(String),
    created_at        DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    updated_at        DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    index seq_range seq type minmax granularity 1
) engine = ReplacingMergeTree
partition by toYYYYMM(created_at)
order by (merchant_id, id, version)
settings non_replicated_deduplication_window = 10000;

create table if not exists payouts (
    kafka_partition   UInt16,
    seq               UInt64,
    id                String,
    version           UInt64,
    account_id        String,
    merchant_id       String,
    amount            Int64,
    currency          LowCardinality(String),
    currency_exponent UInt8,
    state             LowCardinality(String),
    failure_reason    LowCardinality(Nullable(String)),
    created_at        DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    updated_at        DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    index seq_range seq type minmax granularity 1
) engine = ReplacingMergeTree
partition by toYYYYMM(created_at)
order by (merchant_id, id, version)
settings non_replicated_deduplication_window = 10000;
