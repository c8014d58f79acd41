-- What the soak of the limiter reads from Postgres once nothing moves any more; as the operator's role.

-- name: leases
-- books: by policy, what became of its leases. The table of a soak is small.
select policy_id,
       sum(granted)::bigint, sum(reported)::bigint, sum(assumed)::bigint, sum(released)::bigint
from limit_lease_settlement
group by policy_id;

-- name: refunds
-- books: by policy of the lease, how many charges were looked at, what was given back and what stays charged.
select s.policy_id,
       count(*), sum(r.credited)::bigint,
       (sum(r.cost) filter (where r.outcome <> 'credited'))::bigint
from limit_lease_refund r
join limit_lease_settlement s on s.lease_id = r.lease_id
group by s.policy_id;

-- name: moving
-- books: what the streams have still to do, and how far totals have got. Few rows; the index of open refunds.
select (select sum(open_leases) from limit_lease_position)::bigint,
       (select count(*) from limit_lease_refund where outcome is null),
       (select sum(allowed + denied) from limit_usage)::bigint;

-- name: usage
-- books: what the stream of decisions adds up to, by key. The primary key.
select limit_key, allowed_cost from unnest(%s::text[]) as t (named) join limit_usage on key_digest = limit_key_digest(named);

-- name: totals
-- analytics: what the stream adds up to in Postgres, by key as ClickHouse calls it. The tables of a soak are small.
select md5(limit_key), allowed, denied, allowed_cost, coalesce(s.refused, 0)::bigint
from limit_usage
left join (select key_digest, sum(refused) as refused from limit_usage_shadow group by key_digest) s using (key_digest);
