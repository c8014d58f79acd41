-- name: tenants_read
-- The tenants of a batch, locked: a mover that changes one waits, or this does. Primary key.
select t.tenant_id, t.name, t.tier, t.state, t.suspension, t.reason, t.timezone, t.home_currency, t.quotas, t.prices, t.placement_id,
       t.generation, t.key_ref, t.policy_version, t.version, t.certificate_id, t.created_at, t.updated_at
from tenant t
where t.tenant_id = any (%s::text[])
order by t.tenant_id
for update;

-- name: placements_read
-- Where they are, now that nobody can move them: a statement of its own, as a lock that waited would join what was. Primary keys.
select distinct p.placement_id, p.region, p.mode, p.shard_or_database, p.state, p.tenant_id
from tenant t join placement p on p.placement_id = t.placement_id
where t.tenant_id = any (%s::text[]);

-- name: keys_read
-- Which keys these tenants have; nothing that is sealed under a closed one is written. Primary key.
select tenant_id, key_version, case when state = 'decrypt_only' and closed_at is not null then 'closed' else state end
from tenant_key where tenant_id = any (%s::text[]) order by tenant_id, key_version;

-- name: stores_read
-- Batches that bring tenants to a store: what all of them hold, until the batch is committed. As many rows as there are stores.
select store, mode, tenants_max, bytes_max, tenants, bytes, standing from tenant_store where is_made order by store for update;

-- name: stores_fit
-- Behind what brought tenants: partitions of one round were decided apart, and may have taken one place twice. A store that
-- holds more than it may divides by zero, which fails the transaction. Primary key.
select 1 / (count(*) = 0)::int
from unnest(%s::text[], %s::bigint[]) as t (store, places)
join tenant_store s on s.store = t.store
where s.tenants > t.places;

-- name: keys_held
-- Batches that make keys: before a root key is chosen for them, and until they are committed, none is taken away.
lock table tenant_key in row exclusive mode;

-- name: usage_read
-- What they use of their hard quotas. Primary key.
select tenant_id, dimension, used from quota_usage where tenant_id = any (%s::text[]);

-- name: heads_read
-- The resources of a batch. Primary key.
select h.tenant_id, h.resource_id, h.version, h.deleted, h.size, h.created_at, h.updated_at
from unnest(%s::text[], %s::text[]) as a (tenant_id, resource_id)
join resource_head h on h.tenant_id = a.tenant_id and h.resource_id = a.resource_id;

-- name: placements_insert
-- Placements that are asked for; a pool is there already, or begins now.
insert into placement (placement_id, region, mode, shard_or_database, state, tenant_id)
select placement_id, region, mode, shard_or_database, state, nullif(tenant_id, '')
from unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[])
    as t (placement_id, region, mode, shard_or_database, state, tenant_id)
order by placement_id
on conflict (placement_id) do nothing;

-- name: tenants_insert
-- New ones; a key that exists fails the batch.
insert into tenant (partition, tenant_id, name, tier, state, suspension, reason, timezone, home_currency, quotas, prices, placement_id,
                    generation, key_ref, policy_version, version, certificate_id, created_at, updated_at)
select partition, tenant_id, name, tier, state, nullif(suspension, ''), nullif(reason, ''), timezone, home_currency, quotas::jsonb,
       prices::jsonb, placement_id, generation, key_ref, policy_version, version, nullif(certificate_id, ''), created_at, updated_at
from unnest(%s::int[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
            %s::text[], %s::text[], %s::bigint[], %s::text[], %s::bigint[], %s::bigint[], %s::text[], %s::bigint[], %s::bigint[])
    as t (partition, tenant_id, name, tier, state, suspension, reason, timezone, home_currency, quotas, prices, placement_id,
          generation, key_ref, policy_version, version, certificate_id, created_at, updated_at);

-- name: tenants_update
-- Compare-and-set on the versions read: a miss divides by zero, which fails the transaction.
with written as (
    update tenant c
    set name = t.name, tier = t.tier, state = t.state, suspension = nullif(t.suspension, ''), reason = nullif(t.reason, ''),
        timezone = t.timezone, quotas = t.quotas::jsonb, prices = t.prices::jsonb, policy_version = t.policy_version,
        version = t.version, updated_at = t.updated_at
    from unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
                %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[])
        as t (tenant_id, name, tier, state, suspension, reason, timezone, quotas, prices, policy_version, version, updated_at,
              read_version)
    where c.tenant_id = t.tenant_id and c.version = t.read_version
    returning 1)
select 1 / (count(*) = %s)::int from written;

-- name: history_insert
-- What commands changed of tenants: before the tenants are written. A version that has its row fails the batch.
insert into tenant_history (tenant_id, version, at, made_by, operation, request_id, person, changed)
select tenant_id, version, at, made_by, operation, request_id, nullif(person, ''), changed::jsonb
from unnest(%s::text[], %s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[])
    as t (tenant_id, version, at, made_by, operation, request_id, person, changed);

-- name: gates_insert
-- New tenants may be written where their rows are.
insert into tenancy.gate (tenant_id, generation, access)
select tenant_id, generation, 'rw' from unnest(%s::text[], %s::bigint[]) as t (tenant_id, generation);

-- name: keys_retire
-- Older keys open what they sealed, and seal no more.
update tenant_key set state = 'decrypt_only' where tenant_id = any (%s::text[]) and state = 'active';

-- name: keys_destroy
-- No version of these tenants' keys is left.
update tenant_key k set state = 'destroyed', wrapped = null, destroyed_at = t.destroyed_at
from unnest(%s::text[], %s::bigint[]) as t (tenant_id, destroyed_at)
where k.tenant_id = t.tenant_id and k.state <> 'destroyed';

-- name: keys_insert
-- New keys, wrapped. A tenant has one active key: a second one fails the transaction.
insert into tenant_key (tenant_id, key_version, root_key_id, wrapped, state, created_at)
select tenant_id, key_version, root_key_id, wrapped, state, created_at
from unnest(%s::text[], %s::bigint[], %s::text[], %s::bytea[], %s::text[], %s::bigint[])
    as t (tenant_id, key_version, root_key_id, wrapped, state, created_at);

-- name: usage_write
-- What they use now; the lock on the tenant makes it theirs alone.
insert into quota_usage (tenant_id, dimension, used)
select tenant_id, dimension, used from unnest(%s::text[], %s::text[], %s::bigint[]) as t (tenant_id, dimension, used)
on conflict (tenant_id, dimension) do update set used = excluded.used;

-- name: heads_insert
-- New resources; a key that exists fails the batch.
insert into resource_head (tenant_id, resource_id, version, deleted, size, created_at, updated_at)
select * from unnest(%s::text[], %s::text[], %s::bigint[], %s::boolean[], %s::bigint[], %s::bigint[], %s::bigint[]);

-- name: heads_update
-- Compare-and-set on the versions read: a miss divides by zero, which fails the transaction.
with written as (
    update resource_head h set version = t.version, deleted = t.deleted, size = t.size, updated_at = t.updated_at
    from unnest(%s::text[], %s::text[], %s::bigint[], %s::boolean[], %s::bigint[], %s::bigint[], %s::bigint[])
        as t (tenant_id, resource_id, version, deleted, size, updated_at, read_version)
    where h.tenant_id = t.tenant_id and h.resource_id = t.resource_id and h.version = t.read_version
    returning 1)
select 1 / (count(*) = %s)::int from written;

-- name: rows_apply
-- Images into stores of this database, each under its tenant's own context.
select tenancy.apply_rows(%s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bytea[], %s::boolean[]);

-- name: feed_append
-- Images on their way to stores of other databases.
insert into resource_feed (placement_id, tenant_id, resource_id, version, payload, deleted)
select * from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bytea[], %s::boolean[]);

-- name: migrations_read
-- The open moves of the tenants of a batch; the lock on the tenant is theirs too. Served by tenant_migration_one_open.
select m.tenant_id, m.migration_id, m.state, m.source, m.target, m.from_generation, m.to_generation, m.rows_per_second, m.fenced,
       m.closing, m.soaks_until, m.version, m.created_at, m.updated_at, m.rows_copied, m.rows_verified, m.mismatches,
       m.dual_match, m.dual_target_behind, m.dual_missing, m.dual_diff, m.dual_target_ahead
from tenant_migration m
where m.tenant_id = any (%s::text[]) and m.state not in ('completed', 'aborted', 'rolled_back');

-- name: migrations_known
-- Which of the moves that commands name ever were, and how they stand. Primary key.
select m.tenant_id, m.migration_id, m.state, m.version from unnest(%s::text[], %s::text[]) as a (tenant_id, migration_id)
join tenant_migration m on m.tenant_id = a.tenant_id and m.migration_id = a.migration_id;

-- name: migrations_insert
-- New moves; a second open one of a tenant fails the batch.
insert into tenant_migration (tenant_id, migration_id, state, source, target, from_generation, rows_per_second, version, created_at,
                              updated_at)
select * from unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[],
                     %s::bigint[]);

-- name: migrations_update
-- Compare-and-set on the versions read: a miss divides by zero, which fails the transaction.
with written as (
    update tenant_migration m set state = t.state, closing = t.closing, version = t.version, updated_at = t.updated_at
    from unnest(%s::text[], %s::text[], %s::text[], %s::boolean[], %s::bigint[], %s::bigint[], %s::bigint[])
        as t (tenant_id, migration_id, state, closing, version, updated_at, read_version)
    where m.tenant_id = t.tenant_id and m.migration_id = t.migration_id and m.version = t.read_version
    returning 1)
select 1 / (count(*) = %s)::int from written;

-- name: exports_insert
-- Exports that are asked for.
insert into tenant_export (tenant_id, export_id, state, resources, created_at)
select tenant_id, export_id, 'running', 0, created_at from unnest(%s::text[], %s::text[], %s::bigint[]) as t (tenant_id, export_id, created_at);

-- name: costs_kept
-- OwnerCosts: what tenants cost this owner in the last minute. The place of the last slice is locked until the commit.
select tenant_cost_measured(%s::text, %s::text[], %s::bigint[], %s::bigint[], %s::bigint[]);
