-- What social posts did: fan-out, propagation of decisions, moderation. No post, no user.
create table if not exists social_measures (
    kafka_partition UInt16,
    seq             UInt64,
    at              DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    measure         LowCardinality(String),
    subject         LowCardinality(String),
    quantity        UInt64,
    took_us         UInt64,
    index seq_range seq type minmax granularity 1
) engine = MergeTree
partition by toYYYYMM(at)
order by (measure, subject, at, seq)
settings non_replicated_deduplication_window = 10000;
