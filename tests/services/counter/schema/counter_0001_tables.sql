-- Every version of every counter, and that it was closed.
create table if not exists counters (
    kafka_partition UInt16,
    seq             UInt64,
    id              String,
    version         UInt64,
    owner           String,
    value           Int64,
    added           Int64,
    is_closed       Bool,
    occurred_at     DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    index seq_range seq type minmax granularity 1
) engine = MergeTree
order by (owner, id, version)
settings non_replicated_deduplication_window = 10000;
