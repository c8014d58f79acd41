-- Usage of tenants: a row for each event that counts. What is billed is reckoned in Postgres; these are the same events.
create table if not exists tenant_usage (
    kafka_partition UInt16,
    seq             UInt64,
    tenant_id       String,
    source          String,
    event_id        String,
    dimension       LowCardinality(String),
    subject         String,
    quantity        UInt64,
    occurred_at     DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    index seq_range seq type minmax granularity 1
) engine = MergeTree
partition by toYYYYMM(occurred_at)
order by (tenant_id, dimension, toStartOfHour(occurred_at), source, event_id)
settings non_replicated_deduplication_window = 10000;
