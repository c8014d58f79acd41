-- What waits (waiting.py). Each part is bounded by an index, however many rows there are.

-- name: cases_waiting
-- Open cases by kind, counted up to a bound, and the age of the oldest of each.
with recursive kinds as (
    (select kind from repair_case where state <> 'resolved' order by kind limit 1)
    union all
    select (select c.kind from repair_case c where c.state <> 'resolved' and c.kind > k.kind order by c.kind limit 1)
    from kinds k where k.kind is not null
)
select k.kind, found.cases, greatest(0, extract(epoch from clock_timestamp() - found.oldest))::double precision
from kinds k
cross join lateral (
    select count(*) as cases, min(c.opened_at) as oldest
    from (select opened_at from repair_case where state <> 'resolved' and kind = k.kind
          order by opened_at limit %(most)s) c
) found
where k.kind is not null;

-- name: events_waiting
-- How long the oldest event of each topic has waited for Kafka. Primary key, once for each partition.
select topic, oldest_s from events_unpublished();
