-- What the sink of ClickHouse reads of the usage that was counted.

-- name: usage_feed_ends
-- Whether there is more. Primary key.
select partition, last_seq from usage_counted where partition = any(%(partitions)s::int[]);

-- name: usage_feed_rows
-- A run of a partition, in order. Index usage_event_place.
select partition, seq, tenant_id, source, event_id, dimension, coalesce(subject, ''), quantity,
       (extract(epoch from occurred_at) * 1000000)::bigint
from usage_event where partition = %(partition)s and seq > %(after)s and seq <= %(until)s
order by seq limit %(limit)s;

-- name: usage_costs_kept
-- What ClickHouse took for it in the last minute, by tenant. Primary keys.
select tenant_cost_fed(%(tenants)s::text[], %(us)s::bigint[]);
