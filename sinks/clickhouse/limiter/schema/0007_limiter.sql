-- Decisions of the rate limiter. A key is known by the MD5 of tenant:user:route only: no user is copied here. The window
-- makes ClickHouse drop a block that comes again; what came past it would be the same rows, which the engine collapses.

-- Decisions that the audit setting of their policy keeps. Each stands for ``weight`` decisions: sums of weight, and of
-- cost * weight, are unbiased. event_id is unique.
create table if not exists limit_decisions (
    source         String,                     -- one process of a gateway
    number         UInt64,                     -- of the decision in its source
    event_id       String alias concat(source, ':', toString(number)),
    at             DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    tenant         String,
    route          String,
    key_hash       String,
    policy_id      LowCardinality(String),
    policy_version UInt32,
    cost           UInt32,
    remaining      Int32,
    allowed        Bool,
    repeated       Bool,                       -- a retry: it consumed nothing
    degraded       Bool,                       -- the failure mode decided
    approximate    Bool,                       -- out of a lease: remaining is what this gateway knows
    weight         UInt32
) engine = ReplacingMergeTree
partition by toDate(at)
order by (tenant, route, key_hash, at, source, number)
ttl toDateTime(at) + interval 30 day
settings non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;

-- Exact sums of all decisions, rows or not. block is the sink's plan: a block that comes again replaces itself.
create table if not exists limit_decisions_by_minute (
    minute       DateTime('UTC'),
    tenant       String,
    policy_id    LowCardinality(String),
    route        String,
    block        UInt64,
    allowed      UInt64,
    denied       UInt64,
    repeated     UInt64,
    degraded     UInt64,
    allowed_cost UInt64,
    denied_cost  UInt64,
    rows         UInt64,                       -- of them in limit_decisions
    weight       UInt64                        -- what these rows say about all of them
) engine = ReplacingMergeTree
partition by toYYYYMM(minute)
order by (tenant, policy_id, route, minute, block)
ttl minute + interval 400 day
settings non_replicated_deduplication_window = 10000;

-- The same by key, for as long as an operator asks who is busy.
create table if not exists limit_keys_by_minute (
    minute       DateTime('UTC'),
    key_hash     String,
    tenant       String,
    policy_id    LowCardinality(String),
    route        String,
    block        UInt64,
    allowed      UInt64,
    denied       UInt64,
    repeated     UInt64,
    degraded     UInt64,
    allowed_cost UInt64,
    denied_cost  UInt64,
    rows         UInt64,
    weight       UInt64
) engine = ReplacingMergeTree
partition by toDate(minute)
order by (minute, key_hash, policy_id, block)
ttl minute + interval 2 day
settings non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;

-- Decisions of a source that are lost to the stream: in no row and in no sum.
create table if not exists limit_decision_gaps (
    source String,
    gap    UInt64,
    as_of  DateTime64(6, 'UTC')
) engine = ReplacingMergeTree(gap)
order by source
ttl toDateTime(as_of) + interval 400 day
settings non_replicated_deduplication_window = 10000;
