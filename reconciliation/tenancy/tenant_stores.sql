-- name: tenant_places
-- A tenant with its open move, for millrace tenants where. Primary keys.
select t.generation, t.state, p.placement_id, p.mode, p.shard_or_database, m.state as move_state, m.source, m.target
from tenant t join placement p on p.placement_id = t.placement_id
left join tenant_migration m on m.tenant_id = t.tenant_id and m.state not in ('completed', 'aborted', 'rolled_back')
where t.tenant_id = %(tenant_id)s;

-- name: placement_by_id
-- Primary key.
select placement_id, mode, shard_or_database from placement where placement_id = %(placement_id)s;

-- name: tenants_newest
-- For millrace tenants list, from behind a tenant on. Served by tenant_newest.
select t.tenant_id, t.name, t.tier, t.state, p.mode, t.generation, coalesce(q.used, 0) as resources
from tenant t join placement p on p.placement_id = t.placement_id
left join quota_usage q on q.tenant_id = t.tenant_id and q.dimension = 'resources'
where (t.created_at, t.tenant_id) < (coalesce((select a.created_at from tenant a where a.tenant_id = %(after)s), 9223372036854775807),
                                     %(after)s)
order by t.created_at desc, t.tenant_id desc limit %(limit)s;

-- name: tenant_shown
-- For millrace tenants show. Primary keys.
select t.tenant_id, t.name, t.tier, t.state, t.suspension, t.reason, t.timezone, t.home_currency, t.quotas, t.prices, t.placement_id,
       p.mode, p.region, t.generation, t.key_ref, t.policy_version, t.version, t.certificate_id
from tenant t join placement p on p.placement_id = t.placement_id where t.tenant_id = %(tenant_id)s;

-- name: noisy_tenants
-- For millrace tenants noisy: who had others wait, or most of the database's time, the newest first. As many rows as there ever were such tenants.
select n.topic, n.caller, n.partition, n.share_percent, n.units_left, n.windows, n.since, n.seen_at, n.move_proposed_at, p.mode
from noisy_caller n
left join tenant t on n.caller = 'tenant:' || t.tenant_id left join placement p on p.placement_id = t.placement_id
where n.topic in ('commands.tenancy.v1', 'database')
order by n.seen_at desc limit %(limit)s;

-- name: isolation_shown
-- For millrace tenants isolation: one row. Primary keys, isolation_violation_open.
select m.is_on, m.since, m.probe, m.evidence, m.proposed_by, r.as_of,
       (select count(*) from isolation_violation where resolved_at is null) as violations,
       (select coalesce(sum(gaps), 0)::bigint from isolation_lint) as gaps
from isolation_safe_mode m left join isolation_round r on r.only_one;

-- name: keys_held_still
-- millrace tenants root-keys-remove: until its transaction ends no key is wrapped, and none that was is uncommitted.
select tenant_keys_held_still();

-- name: keys_by_root_key
-- millrace tenants root-keys: asked for by a person. A scan.
select root_key_id, count(*) as keys from tenant_key where wrapped is not null group by root_key_id order by root_key_id;

-- name: stores_shown
-- For millrace tenants stores. As many rows as there are stores.
select store, mode, is_made, tenants_max, bytes_max, tenants, bytes, standing, measured_at from tenant_store order by mode desc, store;

-- name: store_declared
-- millrace tenants store: what is not given stays. A schema that is new is made by the mover. Primary key.
insert into tenant_store as s (store, mode, is_made, tenants_max, bytes_max)
values (%(store)s, case %(store)s when 'schemas' then 'partitioned' when 'databases' then 'dedicated' else 'pooled' end, false,
        %(tenants_max)s::bigint, %(bytes_max)s::bigint)
on conflict (store) do update
set tenants_max = case when %(sets_tenants)s then excluded.tenants_max else s.tenants_max end,
    bytes_max = case when %(sets_bytes)s then excluded.bytes_max else s.bytes_max end
returning store, mode, is_made, tenants_max, bytes_max, tenants, bytes, standing, measured_at;
