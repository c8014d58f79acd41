-- What the owner of durable quotas reads and writes, and who looks at them. Each names its index.

-- name: quota_tenants_read
-- The tenants of a batch. Primary key.
select aggregate_key, version from quota_tenant where aggregate_key = any (%s::text[]);

-- name: quota_counters_read
-- The counters that consumptions name, and those that refunds give back to. Primary keys.
select c.aggregate_key, c.policy_id, c.counted_by, c.body
from unnest(%s::text[], %s::text[], %s::text[]) as t (aggregate_key, policy_id, counted_by)
join quota_counter c using (aggregate_key, policy_id, counted_by)
union
select c.aggregate_key, c.policy_id, c.counted_by, c.body
from unnest(%s::text[], %s::text[]) as t (aggregate_key, identity)
join quota_charge h using (aggregate_key, identity)
cross join lateral unnest(h.policy_ids, h.counted_by) as l (policy_id, counted_by)
join quota_counter c on c.aggregate_key = h.aggregate_key and c.policy_id = l.policy_id and c.counted_by = l.counted_by;

-- name: quota_charges_read
-- What refunds are of. Primary key.
select h.aggregate_key, h.identity, h.cost, h.charged_at, h.version, h.policy_ids, h.counted_by, h.refunded_version, h.refunded_at
from unnest(%s::text[], %s::text[]) as t (aggregate_key, identity)
join quota_charge h using (aggregate_key, identity);

-- name: quota_tenants_insert
-- Tenants that the batch saw first. One that exists fails the batch.
insert into quota_tenant (partition, aggregate_key, tenant, version, updated_at)
select %s, t.aggregate_key, t.tenant, t.version, clock_timestamp()
from unnest(%s::text[], %s::text[], %s::bigint[]) as t (aggregate_key, tenant, version);

-- name: quota_tenants_update
-- Compare-and-set against the versions read. A miss divides by zero, so the commit queued behind it does nothing.
with written as (
    update quota_tenant q set version = t.version, updated_at = clock_timestamp()
    from unnest(%s::text[], %s::bigint[], %s::bigint[]) as t (aggregate_key, version, read_version)
    where q.aggregate_key = t.aggregate_key and q.version = t.read_version
    returning 1
)
select 1 / (count(*) = %s)::int from written;

-- name: quota_counters_write
-- The counters that the batch changed, behind the compare-and-set of their tenants. Primary key.
insert into quota_counter (aggregate_key, policy_id, counted_by, policy_version, used, body, base_version, expires_at, updated_at)
select t.aggregate_key, t.policy_id, t.counted_by, t.policy_version, t.used, t.body, t.base_version,
       timestamptz 'epoch' + t.expires_at * interval '1 microsecond', clock_timestamp()
from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::text[], %s::bigint[], %s::bigint[])
         as t (aggregate_key, policy_id, counted_by, policy_version, used, body, base_version, expires_at)
on conflict (aggregate_key, policy_id, counted_by) do update
set policy_version = excluded.policy_version, used = excluded.used, body = excluded.body,
    base_version = excluded.base_version, expires_at = excluded.expires_at, updated_at = excluded.updated_at;

-- name: quota_charges_insert
-- What the batch consumed; an identity that was charged before fails the batch. ``levels`` is a JSON array of
-- [policy, values]. Primary key.
insert into quota_charge (aggregate_key, identity, cost, charged_at, version, policy_ids, counted_by, refunded_version, refunded_at)
select t.aggregate_key, t.identity, t.cost, t.charged_at, t.version,
       array(select l ->> 0 from jsonb_array_elements(t.levels::jsonb) with ordinality as e (l, n) order by n),
       array(select l ->> 1 from jsonb_array_elements(t.levels::jsonb) with ordinality as e (l, n) order by n),
       nullif(t.refunded_version, 0), nullif(t.refunded_at, 0)
from unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::bigint[], %s::bigint[])
         as t (aggregate_key, identity, cost, charged_at, version, levels, refunded_version, refunded_at);

-- name: quota_charges_refund
-- What was given back of charges of earlier batches; one that was pruned meanwhile is not missed. Primary key.
update quota_charge h set refunded_version = t.version, refunded_at = t.at
from unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[]) as t (aggregate_key, identity, version, at)
where h.aggregate_key = t.aggregate_key and h.identity = t.identity;

-- name: quota_counters_prune
-- Counters that have held nothing for the retention: the next request makes them again. Served by quota_counter_expired.
-- What an owner is writing is left alone, so that neither waits for the other.
delete from quota_counter where (aggregate_key, policy_id, counted_by) in (
    select aggregate_key, policy_id, counted_by from quota_counter
    where expires_at < clock_timestamp() - %(retention_s)s * interval '1 second'
    order by expires_at limit %(rows)s for update skip locked
) and expires_at < clock_timestamp() - %(retention_s)s * interval '1 second';

-- name: quota_charges_prune
-- Charges that are older than the retention and that no counter is checked against any more. Served by quota_charge_age.
delete from quota_charge where (aggregate_key, identity) in (
    select h.aggregate_key, h.identity from quota_charge h
    where h.charged_at < extract(epoch from clock_timestamp() - %(retention_s)s * interval '1 second') * 1000000
      and not exists (
          select 1 from unnest(h.policy_ids, h.counted_by) as l (policy_id, counted_by)
          join quota_counter c on c.aggregate_key = h.aggregate_key and c.policy_id = l.policy_id and c.counted_by = l.counted_by
          where c.base_version < coalesce(h.refunded_version, h.version)
      )
    order by h.charged_at limit %(rows)s for update skip locked
);

-- name: quota_counter_by_key
-- What one counter holds, for those who look at it. Primary key.
select body, (extract(epoch from clock_timestamp()) * 1000000)::bigint
from quota_counter where aggregate_key = %(aggregate_key)s and policy_id = %(policy_id)s and counted_by = %(counted_by)s;
