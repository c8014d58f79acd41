-- What happened to posts. No text, no name, no user: who did it is Postgres's to know.
create table if not exists social_events (
    kafka_partition UInt16,
    seq             UInt64,
    post_id         String,  -- empty: it concerns users alone
    event_type      LowCardinality(String),
    version         UInt64,
    occurred_at     DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    index seq_range seq type minmax granularity 1
) engine = MergeTree
order by (post_id, occurred_at, kafka_partition, seq)
settings non_replicated_deduplication_window = 10000;
