-- What tenants cost, what the isolation monitor found, and a copy of the audit log to search in. The truth is in Postgres.
create table if not exists tenant_cost_slices (
    kafka_partition UInt16,
    seq             UInt64,
    tenant_id       String,
    ended_at        DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    source          LowCardinality(String),
    calls           UInt64,
    database_us     UInt64,
    index seq_range seq type minmax granularity 1
) engine = MergeTree
partition by toYYYYMM(ended_at)
order by (tenant_id, toStartOfHour(ended_at), seq)
settings non_replicated_deduplication_window = 10000;
create table if not exists isolation_evidence (
    kafka_partition UInt16,
    seq             UInt64,
    number          UInt64,
    seen_at         DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    probe           LowCardinality(String),
    evidence        String,
    index seq_range seq type minmax granularity 1
) engine = MergeTree
partition by toYYYYMM(seen_at)
order by (seen_at, seq)
settings non_replicated_deduplication_window = 10000;
create table if not exists audit_search (
    kafka_partition UInt16,
    seq             UInt64,
    at              DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    actor           String,
    db_role         LowCardinality(String),
    action          LowCardinality(String),
    object          String,
    outcome         LowCardinality(String),
    index seq_range seq type minmax granularity 1,
    index objects object type bloom_filter granularity 4,
    index actors actor type bloom_filter granularity 4
) engine = MergeTree
partition by toYYYYMM(at)
order by (at, seq)
settings non_replicated_deduplication_window = 10000;
