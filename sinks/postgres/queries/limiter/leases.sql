-- What the stream of leases reads and writes. Each names its index.

-- name: lease_position
-- How far a partition is settled, never back, and what is open in it. Primary key.
update limit_lease_position
set oldest_open_end = timestamptz 'epoch' + %s::bigint * interval '1 microsecond',
    open_leases = %s, settled_until = greatest(settled_until, timestamptz 'epoch' + %s::bigint * interval '1 microsecond')
where partition = %s;

-- name: lease_shard_map
-- Where counters are. Primary key, from the right.
select body from limiter_shard_map order by version desc limit 1;

-- name: lease_settlements_insert
-- One row for each lease. A gateway that speaks after we had to assume moves what was assumed to what was reported; what
-- was released stays, for the store has released it. Of a lease that is read again long after its row was deleted, what was
-- given back is still known. Primary key of it, and of refunds.
insert into limit_lease_settlement as s
    (lease_id, key_hash, policy_id, policy_version, granted, reported, assumed, released, reason, ended_at,
     shard, terms, counts_until, refunded)
select t.lease_id, t.key_hash, t.policy_id, t.policy_version, t.granted, t.reported, t.assumed, t.released, t.reason,
       timestamptz 'epoch' + t.ended_at * interval '1 microsecond', t.shard, t.terms,
       timestamptz 'epoch' + t.counts_until * interval '1 microsecond',
       (select coalesce(sum(r.credited), 0) from limit_lease_refund r where r.lease_id = t.lease_id)
from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[],
            %s::text[], %s::bigint[], %s::text[], %s::bytea[], %s::bigint[])
         as t (lease_id, key_hash, policy_id, policy_version, granted, reported, assumed, released, reason, ended_at,
               shard, terms, counts_until)
on conflict (lease_id) do update
set reported = excluded.reported, assumed = greatest(0, s.granted - s.released - excluded.reported)
where excluded.reported > s.reported;

-- name: lease_settlements_prune
-- What is older than anybody asks for, oldest first. Index limit_lease_settlement_age.
delete from limit_lease_settlement where lease_id in (
    select lease_id from limit_lease_settlement where ended_at < now() - make_interval(secs => %s)
    order by ended_at limit %s);
