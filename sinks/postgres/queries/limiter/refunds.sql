-- What the stream of identities reads and writes. Each names its index.

-- name: refunds_found
-- Charges to give back, each once, in the transaction that moves the position. Primary key.
insert into limit_lease_refund (lease_id, identity, key_hash, limit_key, cost, charged_at, first_lease_id)
select t.lease_id, t.identity, t.key_hash, t.limit_key, t.cost, timestamptz 'epoch' + t.charged_at * interval '1 microsecond',
       t.first_lease_id
from unnest(%s::text[], %s::bigint[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[])
         as t (lease_id, identity, key_hash, limit_key, cost, charged_at, first_lease_id)
on conflict do nothing;

-- name: refunds_due
-- Open ones whose lease is settled, those that the store was not asked for first. Index limit_lease_refund_open; primary key
-- of leases.
select r.lease_id, r.identity, r.key_hash, r.cost, (extract(epoch from r.charged_at) * 1000000)::bigint, s.shard, s.terms,
       coalesce(extract(epoch from now() - r.attempted_at) * 1000, 0)::bigint
from limit_lease_refund r
join limit_lease_settlement s on s.lease_id = r.lease_id
where r.outcome is null
order by r.attempted_at nulls first, r.found_at limit %s;

-- name: refunds_open
-- Whether any waits, perhaps for its lease. Index limit_lease_refund_open.
select exists (select from limit_lease_refund where outcome is null);

-- name: refunds_attempted
-- The store is asked for them from now on. Primary key.
update limit_lease_refund r set attempted_at = now()
from unnest(%s::text[], %s::bigint[]) as t (lease_id, identity)
where r.lease_id = t.lease_id and r.identity = t.identity and r.attempted_at is null;

-- name: refunds_done
-- What came of them, with the lease and the totals of the key in the same statement: each counts once. Primary keys.
with done as (
    update limit_lease_refund r set outcome = t.outcome, credited = t.credited, done_at = now()
    from unnest(%s::text[], %s::bigint[], %s::text[], %s::bigint[]) as t (lease_id, identity, outcome, credited)
    where r.lease_id = t.lease_id and r.identity = t.identity and r.outcome is null
    returning r.lease_id, r.limit_key, r.cost, r.credited, r.charged_at, r.outcome),
leases as (
    update limit_lease_settlement s set refunded = s.refunded + d.credited
    from (select lease_id, sum(credited) as credited from done group by lease_id) d
    where s.lease_id = d.lease_id)
insert into limit_usage_refund as u (limit_key, refunded, refunded_cost, as_of)
select limit_key, count(*), sum(cost), max(charged_at) from done
where limit_key <> 0 and outcome in ('credited', 'over') group by limit_key
on conflict (limit_key) do update
set refunded = u.refunded + excluded.refunded, refunded_cost = u.refunded_cost + excluded.refunded_cost,
    as_of = greatest(u.as_of, excluded.as_of);

-- name: refunds_unsettled
-- Of a lease that nobody ever reported there is no settlement, however far leases are settled, and none is open that ended
-- as early: the store has charged it whole. Index limit_lease_refund_open.
update limit_lease_refund r set outcome = 'unsettled', done_at = now()
where outcome is null
  and charged_at < (select min(least(settled_until, oldest_open_end)) from limit_lease_position) - make_interval(secs => %s)
  and not exists (select from limit_lease_settlement s where s.lease_id = r.lease_id);

-- name: refunds_prune
-- What is older than anybody asks for, oldest first, and after its lease, whose row says what they add up to. Index
-- limit_lease_refund_age; primary key of leases.
delete from limit_lease_refund where (lease_id, identity) in (
    select r.lease_id, r.identity from limit_lease_refund r
    where r.done_at < now() - make_interval(secs => %s)
      and not exists (select from limit_lease_settlement s where s.lease_id = r.lease_id)
    order by r.done_at limit %s);
