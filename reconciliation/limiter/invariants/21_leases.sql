-- id: 21
-- title: Of every settled lease of the rate limiter, granted = reported + assumed + released; none waits for long
-- severity: critical
-- owner: limiter
-- source: postgres
select lease_id as object, reason as detail, granted, reported, assumed, released, 'does not add up' as reason
from limit_lease_settlement
where granted <> reported + assumed + released
union all
-- a refund is a credit beyond: of nothing that was not charged, and each stands in the lease once
select s.lease_id, 'refunds of ' || count(r.lease_id), s.granted, s.reported, s.assumed, s.refunded,
       'more is given back than was charged, or other than its refunds say'
from limit_lease_settlement s
left join limit_lease_refund r on r.lease_id = s.lease_id
where s.refunded > 0 or r.credited > 0
group by s.lease_id
having s.refunded > s.reported + s.assumed or s.refunded <> coalesce(sum(r.credited), 0)
union all
-- by then the store has charged it whole: 11 times its length (1 s), and as long again for a restart of the stream
select 'partition ' || partition, oldest_open_end::text, null, null, null, null, 'a lease is open for too long'
from limit_lease_position
where oldest_open_end < now() - interval '22 seconds'
