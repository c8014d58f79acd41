-- id: valkey_rules
-- title: Valkey lets in our users alone, each with the keys and commands that are declared for its kind of process
-- severity: critical
-- owner: limiter
-- source: comparison
-- Where counters are. Primary key, from the right.
select body from limiter_shard_map order by version desc limit 1
