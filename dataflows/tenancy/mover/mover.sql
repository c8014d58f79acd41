-- name: anything_waits
-- Mover: whether a step may find something; an idle round asks this and no more. Served by the indexes of what the steps
-- ask: placement_asked_for, tenant_migration_one_open, tenant_export_running, tenant_at_work, tenant_key_uncertified.
select exists (select tenant_id from placement where state = 'provisioning')
    or exists (select from tenant_store where not is_made)
    or exists (select from tenant_store where standing = 'draining')
    or exists (select from resource_feed)
    or exists (select tenant_id from tenant_migration where state not in ('completed', 'aborted', 'rolled_back'))
    or exists (select tenant_id from tenant_export where state = 'running')
    or exists (select tenant_id from tenant where state = 'deleting')
    or exists (select tenant_id from tenant_key where state = 'destroyed' and certificate_id is null
               and (shred_seq is null
                    or destroyed_at < (extract(epoch from clock_timestamp()) * 1000000)::bigint - %(certified_after_us)s));

-- name: provisioning
-- Placements that tenants or moves wait for, in another order every time. Served by placement_asked_for.
select p.placement_id, p.mode, p.tenant_id, t.generation
from placement p join tenant t on t.tenant_id = p.tenant_id
where p.state = 'provisioning' and t.state <> 'deleted'
order by random() limit %(limit)s;

-- name: stores_asked_for
-- measuring.make: schemas that tenants shall share, and that are not there yet. As many rows as there are stores.
select store from tenant_store where not is_made order by store;

-- name: store_made
-- measuring.make: tenants may come. Primary key.
update tenant_store set is_made = true where store = %(store)s and not is_made;

-- name: stores_measured
-- Measuring: what is on disk, asked for once a minute. All placements are looked at; one that is dropped meanwhile counts nothing.
select s.store, case s.mode
           when 'pooled' then pg_total_relation_size(to_regclass(s.store || '.resource'))
           when 'partitioned' then (
               select coalesce(sum(pg_total_relation_size(to_regclass(p.shard_or_database || '.resource'))), 0)::bigint
               from placement p where p.mode = 'partitioned' and p.state <> 'retired')
           else (
               select coalesce(sum(pg_database_size(d.oid)), 0)::bigint
               from placement p join pg_database d on d.datname = right(current_database() || '_' || p.placement_id, 63)
               where p.mode = 'dedicated' and p.state <> 'retired')
       end as bytes
from tenant_store s where s.is_made order by s.store;

-- name: store_measured
-- Measuring: kept, for who decides whether there is room. Primary key.
update tenant_store set bytes = %(bytes)s, measured_at = now() where store = %(store)s
returning store, mode, tenants_max, bytes_max, tenants, bytes, standing;

-- name: tenants_stored
-- Measuring: the bytes of all live payloads of some tenants, in the order of their ids. Primary keys.
select t.tenant_id,
       (select coalesce(sum(h.size), 0)::bigint from resource_head h where h.tenant_id = t.tenant_id and not h.deleted)
from tenant t where t.tenant_id > %(after)s collate "C" and t.state <> 'deleted' order by t.tenant_id limit %(limit)s;

-- name: tenants_stored_kept
-- Measuring: for analytics, behind all other slices.
select tenant_cost_measured('mover', %(tenants)s::text[], %(none)s::bigint[], %(none)s::bigint[], %(bytes)s::bigint[]);

-- name: placement_active
-- feeding.provision: the store is there.
update placement set state = 'active' where placement_id = %(placement_id)s and state = 'provisioning';

-- name: placement_retired
-- endings and moves: a placement of a tenant's own is empty. Primary key.
update placement set state = 'retired' where placement_id = %(placement_id)s and tenant_id is not null;

-- name: tenants_activate
-- Tenants whose store is there.
update tenant t set state = 'active', version = t.version + 1, policy_version = t.policy_version + 1, updated_at = %(now)s
from placement p
where t.state = 'provisioning' and p.placement_id = t.placement_id and p.state = 'active' and t.tenant_id = %(tenant_id)s;

-- name: feed_placements
-- Which placements images wait for, in another order every time. Primary key.
select placement_id from (select distinct placement_id from resource_feed) p order by random() limit %(limit)s;

-- name: feed_next
-- The images that wait longest for a placement, with what their place needs. Primary key.
select f.seq, f.tenant_id, f.resource_id, f.version, f.payload, f.deleted, p.mode, p.shard_or_database, t.generation
from resource_feed f
join placement p on p.placement_id = f.placement_id
join tenant t on t.tenant_id = f.tenant_id
where f.placement_id = %(placement_id)s
order by f.seq
limit %(limit)s;

-- name: feed_done
-- feeding.bring: these images are where they belong. Primary key.
delete from resource_feed where placement_id = %(placement_id)s and seq = any (%(seqs)s::bigint[]);

-- name: feed_left
-- How many images of a tenant wait for a placement. Served by resource_feed_of_resource.
select count(*) from resource_feed where tenant_id = %(tenant_id)s and placement_id = %(placement_id)s;

-- name: feed_newest
-- moves: the newest image of a tenant that waits for a placement, 0 = none. Served by resource_feed_of_resource.
select coalesce(max(seq), 0) from resource_feed where tenant_id = %(tenant_id)s and placement_id = %(placement_id)s;

-- name: feed_left_upto
-- moves: whether one up to that still waits. Served by resource_feed_of_resource.
select exists (select from resource_feed where tenant_id = %(tenant_id)s and placement_id = %(placement_id)s and seq <= %(upto)s);

-- name: feed_dropped
-- moves: images for a placement that is emptied. Served by resource_feed_of_resource.
delete from resource_feed where tenant_id = %(tenant_id)s and placement_id = %(placement_id)s;

-- name: placement
-- moves: one placement. Primary key.
select placement_id, mode, shard_or_database, state from placement where placement_id = %(placement_id)s;

-- name: exports_running
-- endings.export: some of what waits, in another order every time: one that fails holds up no other. Served by tenant_export_running.
select e.tenant_id, e.export_id from tenant_export e where e.state = 'running' order by random() limit %(limit)s;

-- name: tenant_state
-- endings.export: at the moment that it is of. Primary key.
select state from tenant where tenant_id = %(tenant_id)s;

-- name: tenant_state_locked
-- endings.export: while no owner changes it. Primary key.
select state from tenant where tenant_id = %(tenant_id)s for update;

-- name: tenant_placement
-- The tenant, with the placement that serves it. Primary keys.
select t.tenant_id, t.generation, t.placement_id, p.mode, p.shard_or_database
from tenant t join placement p on p.placement_id = t.placement_id where t.tenant_id = %(tenant_id)s;

-- name: heads_after
-- Live heads in the order of their ids, with images on their way. Primary key.
select h.resource_id, h.version, h.deleted, f.payload
from resource_head h
left join resource_feed f on f.tenant_id = h.tenant_id and f.resource_id = h.resource_id
     and f.placement_id = %(placement_id)s and f.version = h.version
where h.tenant_id = %(tenant_id)s and h.resource_id > %(after)s collate "C"
order by h.resource_id limit %(limit)s;

-- name: export_part
-- endings.export: some lines, sealed.
insert into tenant_export_part (tenant_id, export_id, part, sealed) values (%(tenant_id)s, %(export_id)s, %(part)s, %(sealed)s);

-- name: export_begun
-- endings.export: a try that was cut short leaves nothing. Primary key.
delete from tenant_export_part where tenant_id = %(tenant_id)s and export_id = %(export_id)s;

-- name: export_ready
-- endings.export: all parts are there. Primary key.
update tenant_export set state = 'ready', resources = %(resources)s, sha256 = %(sha256)s
where tenant_id = %(tenant_id)s and export_id = %(export_id)s and state = 'running';

-- name: export_failed
-- endings.export: its keys were destroyed; what a try wrote opens no more. Primary keys.
with gone as (delete from tenant_export_part where tenant_id = %(tenant_id)s and export_id = %(export_id)s)
update tenant_export set state = 'failed' where tenant_id = %(tenant_id)s and export_id = %(export_id)s and state = 'running';

-- name: tenant_exported
-- endings.export: a tenant on its way out may be deleted now. Primary key.
update tenant set state = 'exported', version = version + 1, policy_version = policy_version + 1, updated_at = %(now)s
where tenant_id = %(tenant_id)s and state = 'offboarding';

-- name: keys_of
-- endings, Certifying: the keys of a tenant. Primary key.
select key_version, root_key_id, wrapped, state from tenant_key where tenant_id = %(tenant_id)s;

-- name: keys_wrapped_before
-- Wrapping: keys that another root key than the newest wraps, behind one of them. Primary key, from there on.
select tenant_id, key_version, root_key_id, wrapped from tenant_key
where (tenant_id, key_version) > (%(tenant_id)s, %(key_version)s) and root_key_id <> %(newest)s and wrapped is not null
order by tenant_id, key_version limit %(limit)s;

-- name: keys_held
-- Wrapping: before a root key is chosen, and until the key that it wraps is committed, none is taken away.
lock table tenant_key in row exclusive mode;

-- name: key_wrapped_anew
-- Wrapping: unless it was destroyed, or wrapped anew, meanwhile. Primary key.
update tenant_key set root_key_id = %(root_key_id)s, wrapped = %(wrapped)s
where tenant_id = %(tenant_id)s and key_version = %(key_version)s and wrapped = %(read)s;

-- name: keys_gone
-- Shredding: the tenants whose keys are destroyed. All keys are looked at, once for each start of a mover.
select distinct tenant_id from tenant_key where state = 'destroyed';

-- name: keys_came_back
-- Shredding: keys of these tenants are destroyed. Primary key.
update tenant_key set state = 'destroyed', wrapped = null, destroyed_at = %(now)s
where tenant_id = any(%(tenants)s::text[]) and state <> 'destroyed';

-- name: deleting
-- endings.delete: tenants that are to go, in another order every time. Served by tenant_at_work.
select t.tenant_id, t.generation, t.placement_id, p.mode, p.shard_or_database
from tenant t join placement p on p.placement_id = t.placement_id where t.state = 'deleting'
order by random() limit %(limit)s;

-- name: delete_lasts
-- endings.delete: for how long a statement of this transaction may last, in milliseconds.
select set_config('statement_timeout', %(at_most)s, true);

-- name: deleted_rest
-- Everything of the tenant but its row, its certificates and its moves. Its keys wait for no certificate of their own then.
with a as (delete from resource_head where tenant_id = %(tenant_id)s),
     b as (delete from quota_usage where tenant_id = %(tenant_id)s),
     c as (delete from tenant_export_part where tenant_id = %(tenant_id)s),
     d as (delete from tenant_export where tenant_id = %(tenant_id)s),
     e as (delete from resource_feed where tenant_id = %(tenant_id)s),
     f as (delete from tenancy.gate where tenant_id = %(tenant_id)s),
     g as (delete from tenant_reseal where tenant_id = %(tenant_id)s)
update tenant_key set state = 'destroyed', wrapped = null, certificate_id = coalesce(certificate_id, %(certificate_id)s),
       destroyed_at = case when state = 'destroyed' then destroyed_at else %(now)s end
where tenant_id = %(tenant_id)s;

-- name: tenant_deleted
-- endings.delete: nothing of it is left. Primary key.
update tenant set state = 'deleted', certificate_id = %(certificate_id)s, version = version + 1, policy_version = policy_version + 1,
       updated_at = %(now)s
where tenant_id = %(tenant_id)s and state = 'deleting';

-- name: certificate
-- endings: a signed certificate.
insert into tenant_certificate (tenant_id, certificate_id, document, jws)
values (%(tenant_id)s, %(certificate_id)s, %(document)s, %(jws)s) on conflict do nothing;

-- name: shreds_unnumbered
-- Certifying: tenants whose keys are gone, which no holder of keys was told. Served by tenant_key_uncertified.
select distinct k.tenant_id from tenant_key k join tenant t on t.tenant_id = k.tenant_id
where k.state = 'destroyed' and k.certificate_id is null and k.shred_seq is null and t.state not in ('deleting', 'deleted')
limit %(limit)s;

-- name: shred_numbered
-- Certifying: behind all others; one mover numbers, so numbers are seen in their order. Primary key, tenant_key_shreds.
update tenant_key set shred_seq = (select coalesce(max(n.shred_seq), 0) + 1 from tenant_key n)
where tenant_id = %(tenant_id)s and state = 'destroyed' and certificate_id is null and shred_seq is null;

-- name: shredded
-- Tenants whose keys are gone and whose certificate is due, as each live holder of keys has acknowledged it: in another
-- order every time. Served by tenant_key_uncertified; of holders all are looked at.
select k.tenant_id, t.generation, t.placement_id, p.mode, p.shard_or_database, k.shred_seq, k.destroyed_at
from (select tenant_id, max(shred_seq) as shred_seq, min(destroyed_at) as destroyed_at from tenant_key
      where state = 'destroyed' and certificate_id is null and shred_seq is not null and destroyed_at < %(before)s
      group by tenant_id) k
join tenant t on t.tenant_id = k.tenant_id join placement p on p.placement_id = t.placement_id
where t.state not in ('deleting', 'deleted')
  and not exists (select from key_holder h where h.acked_seq < k.shred_seq
                  and h.lease_until > clock_timestamp() - %(margin_s)s * interval '1 second')
order by random() limit %(limit)s;

-- name: holders_late
-- Certifying: whoever has a lease, and holds up a certificate. Served by tenant_key_uncertified; all holders are looked at.
select h.holder_id, h.kind, h.instance, h.started_at from key_holder h
where h.lease_until > clock_timestamp() - %(margin_s)s * interval '1 second'
  and exists (select k.tenant_id from tenant_key k where k.state = 'destroyed' and k.certificate_id is null
              and k.destroyed_at < %(before)s and k.shred_seq > h.acked_seq)
order by h.holder_id;

-- name: holders_counted
-- Certifying: of those with a lease since a shred, how many have forgotten it, and how many let their lease end.
select count(*) filter (where acked_seq >= %(shred_seq)s), count(*) filter (where acked_seq < %(shred_seq)s)
from key_holder where lease_until > to_timestamp(%(destroyed_at)s::bigint / 1e6);

-- name: key_lease_taken
-- The mover's own lease on keys of tenants. Primary key.
select key_lease_taken(%(holder)s::text, %(instance)s::text, %(lease_s)s::integer);

-- name: key_lease_kept
-- It goes on; the tenants whose keys were shredded since what is acknowledged. Primary key, tenant_key_shreds.
select shred_seq, tenant_id from key_lease_kept(%(holder)s::text, %(acked)s::bigint, %(lease_s)s::integer);

-- name: key_lease_left
-- This mover stops, and holds no key of a tenant any more. Primary key.
select key_lease_left(%(holder)s::text);

-- name: export_parts
-- Certifying: how many parts of exports there are. Primary key.
select count(*) from tenant_export_part where tenant_id = %(tenant_id)s;

-- name: keys_certified
-- Certifying. Primary key.
update tenant_key set certificate_id = %(certificate_id)s where tenant_id = %(tenant_id)s and certificate_id is null;

-- name: moves_open
-- Open moves with their tenants: those first that writes wait for, others in another order every time. Served by
-- tenant_migration_one_open.
select m.tenant_id, m.migration_id, m.state, m.source, m.target, m.from_generation, m.rows_per_second, m.fenced, m.closing, m.fence_until,
       m.soaks_until, m.soak_s, m.copied_after, m.served_mismatches, t.generation, t.placement_id
from tenant_migration m join tenant t on t.tenant_id = m.tenant_id
where m.state not in ('completed', 'aborted', 'rolled_back')
order by m.fenced desc, random() limit %(limit)s;

-- name: move_fenced_still
-- A move as moves_open reads it, if it is fenced. Primary keys.
select m.tenant_id, m.migration_id, m.state, m.source, m.target, m.from_generation, m.rows_per_second, m.fenced, m.closing, m.fence_until,
       m.soaks_until, m.soak_s, m.copied_after, m.served_mismatches, t.generation, t.placement_id
from tenant_migration m join tenant t on t.tenant_id = m.tenant_id
where m.tenant_id = %(tenant_id)s and m.migration_id = %(migration_id)s and m.fenced;

-- name: move_locked
-- The move, while its tenant waits.
select m.state, m.fenced, t.generation, t.placement_id, m.served_mismatches
from tenant t join tenant_migration m on m.tenant_id = t.tenant_id
where t.tenant_id = %(tenant_id)s and m.migration_id = %(migration_id)s
for update of t, m;

-- name: move_state
-- moves: the next state, under the lock. Primary key.
update tenant_migration set state = %(state)s, version = version + 1, updated_at = %(now)s
where tenant_id = %(tenant_id)s and migration_id = %(migration_id)s;

-- name: move_copied
-- Progress leaves the version alone: an owner compares it, under the lock that this does not take. Nor does it wait for
-- the disk: a page that a crash takes with it is copied again.
update tenant_migration set copied_after = %(after)s, rows_copied = rows_copied + %(rows)s, updated_at = %(now)s
where tenant_id = %(tenant_id)s and migration_id = %(migration_id)s
returning set_config('synchronous_commit', 'off', true);

-- name: move_digests
-- moves: what both sides came to when all rows were compared last. Primary key.
update tenant_migration set source_digest = %(source_digest)s, target_digest = %(target_digest)s
where tenant_id = %(tenant_id)s and migration_id = %(migration_id)s;

-- name: move_compared
-- moves: what a comparison of all rows found; the version stays, as with copied rows. Primary key.
update tenant_migration
set rows_verified = greatest(rows_verified, %(verified)s), mismatches = mismatches + %(diff)s + %(target_ahead)s,
    dual_match = dual_match + %(match)s, dual_target_behind = dual_target_behind + %(target_behind)s,
    dual_missing = dual_missing + %(missing)s, dual_diff = dual_diff + %(diff)s,
    dual_target_ahead = dual_target_ahead + %(target_ahead)s, updated_at = %(now)s
where tenant_id = %(tenant_id)s and migration_id = %(migration_id)s;

-- name: move_fenced
-- moves: the fence, under the lock. Primary key.
update tenant_migration set state = %(state)s, fenced = true, fence_until = %(until)s, version = version + 1, updated_at = %(now)s
where tenant_id = %(tenant_id)s and migration_id = %(migration_id)s;

-- name: move_released
-- moves: the end of a fence, under the lock. Primary key.
update tenant_migration set state = %(state)s, fenced = false, closing = %(closing)s, to_generation = %(to_generation)s,
       soaks_until = %(soaks_until)s, reason = coalesce(%(reason)s, reason), version = version + 1, updated_at = %(now)s
where tenant_id = %(tenant_id)s and migration_id = %(migration_id)s;

-- name: move_reason
-- moves: why it is given up. Primary key.
update tenant_migration set reason = %(reason)s where tenant_id = %(tenant_id)s and migration_id = %(migration_id)s;

-- name: gate_fenced
-- moves: the store takes no owner's write either. Primary key.
update tenancy.gate set access = 'fenced' where tenant_id = %(tenant_id)s;

-- name: tenant_placed
-- The one pointer: who reads it with the lock sees the old placement or the new one, and a generation that only grows.
update tenant set placement_id = %(placement_id)s, generation = generation + 1, version = version + 1,
       policy_version = policy_version + 1, updated_at = %(now)s
where tenant_id = %(tenant_id)s and generation = %(generation)s
returning generation;

-- name: gate_opened
-- moves: it does again, for this generation and later ones. Primary key.
update tenancy.gate set access = 'rw', generation = %(generation)s where tenant_id = %(tenant_id)s;

-- name: heads_compared
-- Heads in the order of their ids, behind one and up to another, if that is not "". Primary key.
select resource_id from resource_head
where tenant_id = %(tenant_id)s and resource_id > %(after)s collate "C" and (%(upto)s = '' or resource_id <= %(upto)s collate "C")
order by resource_id limit %(limit)s;

-- name: heads_changed
-- Resources that were written since a moment. All heads of the tenant are read: primary key.
select resource_id from resource_head where tenant_id = %(tenant_id)s and updated_at >= %(since)s;

-- name: heads_digest
-- How many there are of the same, and the sum that tenancy.digest_rows makes of what heads know. Primary key.
select count(*), coalesce(sum(hashtextextended(resource_id || '|' || version || '|' || deleted, 0)::numeric), 0)
from resource_head
where tenant_id = %(tenant_id)s and resource_id > %(after)s collate "C" and (%(upto)s = '' or resource_id <= %(upto)s collate "C");

-- name: heads_versions
-- Which version these resources have. Primary key.
select resource_id, version from resource_head where tenant_id = %(tenant_id)s and resource_id = any (%(ids)s::text[]);

-- name: stores_draining
-- Draining: with how many moves are on their way. As many rows as there are stores; served by tenant_migration_one_open.
select s.store, s.drain_soak_s,
       (select count(m.tenant_id) from tenant_migration m where m.drained_from = s.store
        and m.state not in ('soaking', 'completed', 'aborted', 'rolled_back'))
from tenant_store s where s.standing = 'draining' order by s.store;

-- name: store_retired
-- Draining: nobody is in it, and nobody came meanwhile. Primary key.
update tenant_store set standing = 'retired' where store = %(store)s and standing = 'draining' and tenants = 0;

-- name: drain_next
-- Draining: who has been there for longest, unless it is being moved, was moved in vain of late, or cannot be moved. Served by
-- tenant_placed; a placement is of each region.
select t.tenant_id
from placement p cross join lateral (
    select t.tenant_id, t.created_at from tenant t
    where t.placement_id = p.placement_id and t.state not in ('provisioning', 'deleting', 'deleted')
      and not exists (select from tenant_migration m where m.tenant_id = t.tenant_id
                      and (m.state not in ('completed', 'aborted', 'rolled_back') or m.updated_at > %(tried_since)s))
      and exists (select from tenant_key k where k.tenant_id = t.tenant_id and k.state <> 'destroyed')
    order by t.created_at, t.tenant_id limit %(limit)s) t
where p.mode = 'pooled' and p.shard_or_database = %(store)s
order by t.created_at, t.tenant_id limit %(limit)s;

-- name: drain_locked
-- Draining: a tenant while no owner changes it, with where it is. Primary key.
select t.version, t.generation, t.state, t.placement_id from tenant t where t.tenant_id = %(tenant_id)s for update;

-- name: drain_source
-- Draining: the placement that serves it, and whether a move of it is open. Primary keys.
select p.region, p.shard_or_database, p.mode,
       exists (select from tenant_migration m where m.tenant_id = %(tenant_id)s
               and m.state not in ('completed', 'aborted', 'rolled_back'))
from placement p where p.placement_id = %(placement_id)s;

-- name: stores_held
-- Draining: what all stores hold, until the move is committed; behind the tenant's lock, as owners take them.
select store, mode, tenants_max, bytes_max, tenants, bytes, standing from tenant_store where is_made order by store for update;

-- name: drain_target
-- Draining: the placement where it goes; that of a region is there already, or begins now.
insert into placement (placement_id, region, mode, shard_or_database, state, tenant_id)
values (%(placement_id)s, %(region)s, 'pooled', %(store)s, 'active', null) on conflict (placement_id) do nothing;

-- name: drain_planned
-- Draining: a move as an operator asks for one.
insert into tenant_migration (tenant_id, migration_id, state, source, target, from_generation, rows_per_second, drained_from, soak_s,
                              version, created_at, updated_at)
values (%(tenant_id)s, %(migration_id)s, 'planned', %(source)s, %(target)s, %(generation)s, %(rows_per_second)s, %(store)s, %(soak_s)s,
        1, %(now)s, %(now)s);

-- name: drain_touched
-- Draining: the tenant's next version, as of every command that begins a move. Primary key.
update tenant set version = version + 1, policy_version = policy_version + 1, updated_at = %(now)s where tenant_id = %(tenant_id)s;

-- name: reseal_due
-- Resealing: some tenants with an older key under which something may lie, and how far they are; whose keys were rotated just now,
-- and whoever is moved, waits. In another order every time. Served by tenant_key_unretired.
select o.tenant_id, k.key_version, r.key_version, r.after
from (select distinct tenant_id from tenant_key where state = 'decrypt_only' and retired_at is null) o
join tenant t on t.tenant_id = o.tenant_id and t.state in ('active', 'suspended', 'offboarding', 'exported')
join tenant_key k on k.tenant_id = o.tenant_id and k.state = 'active' and k.created_at < %(before)s
left join tenant_reseal r on r.tenant_id = o.tenant_id and r.finished_at is null
where not exists (select from tenant_migration m where m.tenant_id = o.tenant_id
                  and m.state not in ('completed', 'aborted', 'rolled_back'))
order by random() limit %(limit)s;

-- name: reseal_waiting
-- Resealing: for its metric, while nothing is due. Served by tenant_key_unretired.
select count(distinct tenant_id) from tenant_key where state = 'decrypt_only' and retired_at is null;

-- name: keys_closed
-- Resealing: owners write nothing more that is sealed under them. Primary key.
update tenant_key set closed_at = %(now)s
where tenant_id = %(tenant_id)s and key_version < %(newest)s and state = 'decrypt_only' and closed_at is null;

-- name: reseal_feed_left
-- Resealing: whether an image on its way is under another key: it would come behind a page. Served by resource_feed_of_resource.
select exists (select from resource_feed f where f.tenant_id = %(tenant_id)s and not f.deleted
               and substring(f.payload from 2 for 7) <> substring(int8send(%(newest)s::bigint) from 2));

-- name: reseal_begun
-- Resealing: from the first row on. Primary key.
insert into tenant_reseal (tenant_id, key_version, begun_at, updated_at) values (%(tenant_id)s, %(newest)s, %(now)s, %(now)s)
on conflict (tenant_id) do update
set key_version = excluded.key_version, after = '', looked_at = 0, resealed = 0, begun_at = excluded.begun_at,
    updated_at = excluded.updated_at, finished_at = null;

-- name: reseal_went_on
-- Resealing: as far as that, unless another mover was there. Primary key.
update tenant_reseal set after = coalesce(%(upto)s, after), looked_at = looked_at + %(looked_at)s, resealed = resealed + %(resealed)s,
       updated_at = %(now)s
where tenant_id = %(tenant_id)s and key_version = %(newest)s and after = %(after)s;

-- name: reseal_export_part
-- Resealing: a part of an export that is under another key. Primary key.
select export_id, part, sealed from tenant_export_part
where tenant_id = %(tenant_id)s and substring(sealed from 1 for 8) <> %(head)s limit 1;

-- name: reseal_export_part_done
-- Resealing: unless it was written anew. Primary key.
update tenant_export_part set sealed = %(sealed)s
where tenant_id = %(tenant_id)s and export_id = %(export_id)s and part = %(part)s and sealed = %(was)s;

-- name: reseal_finished
-- Resealing: unless its key was rotated again. Primary keys.
update tenant_reseal r set finished_at = %(now)s, updated_at = %(now)s
where r.tenant_id = %(tenant_id)s and r.key_version = %(newest)s and r.finished_at is null;

-- name: keys_retired
-- Resealing: nothing lies under them. Primary key.
update tenant_key set retired_at = %(now)s
where tenant_id = %(tenant_id)s and key_version < %(newest)s and state = 'decrypt_only' and closed_at is not null and retired_at is null;
