-- What the soak of the limiter reads from ClickHouse once nothing moves any more.

-- name: sums
-- analytics: exact sums of every decision by key, and what they say of the rows that were kept.
select key_hash, sum(allowed), sum(denied), sum(allowed_cost), sum(refused_in_shadow), sum(rows), sum(weight)
from limit_usage_by_key
group by key_hash;

-- name: rows
-- analytics: the kept rows themselves. One event_id twice would be two decisions of one place in its source.
select key_hash, count(), sum(weight), count() - uniqExact(source, number)
from limit_decisions final
group by key_hash;
