-- id: 21
-- title: Of every settled lease of the rate limiter, granted = reported + assumed + released; none waits for long
-- severity: critical
-- owner: limiter
-- source: postgres
select lease_id as object, reason as detail, granted, reported, assumed, released, 'does not add up' as reason
from limit_lease_settlement
where granted <> reported + assumed + released
union all
-- by then the store has charged it whole: 11 times its length (1 s), and as long again for a restart of the stream
select 'partition ' || partition, oldest_open_end::text, null, null, null, null, 'a lease is open for too long'
from limit_lease_position
where oldest_open_end < now() - interval '22 seconds'
