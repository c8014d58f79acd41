-- What the owner of quota policies and the stream of decisions read and write. Each names its index.

-- name: policies_read
-- The policies of a batch. Primary key.
select policy_id, publisher, body, (extract(epoch from created_at) * 1000000)::bigint,
       (extract(epoch from updated_at) * 1000000)::bigint
from policy where policy_id = any (%s::text[]);

-- name: policies_placed
-- Who has the places that a batch publishes at. Constraint policy_place: of two at once the second is decided again.
select place, policy_id, publisher from policy where place = any (%s::text[]);

-- name: policies_insert
-- Policies that the batch made. An id that exists fails the batch.
insert into policy (partition, policy_id, publisher, scope, algorithm, capacity, refill_rate, version, active_version,
                    body, created_at, updated_at, place)
select %s, t.policy_id, t.publisher, t.scope::jsonb, t.algorithm, t.capacity, nullif(t.refill_rate, 0), t.version, t.version,
       t.body, timestamptz 'epoch' + t.created_at * interval '1 microsecond',
       timestamptz 'epoch' + t.updated_at * interval '1 microsecond', nullif(t.place, '')
from unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[],
            %s::bigint[], %s::bigint[], %s::text[])
         as t (policy_id, publisher, scope, algorithm, capacity, refill_rate, version, body, created_at, updated_at, place);

-- name: policies_update
-- Compare-and-set against the versions read. A miss divides by zero, so the commit queued behind it does nothing.
with written as (
    update policy p
    set scope = t.scope::jsonb, algorithm = t.algorithm, capacity = t.capacity, refill_rate = nullif(t.refill_rate, 0),
        version = t.version, active_version = t.version, body = t.body, place = nullif(t.place, ''),
        updated_at = timestamptz 'epoch' + t.updated_at * interval '1 microsecond'
    from unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[],
                %s::bigint[], %s::bigint[], %s::text[], %s::bigint[])
             as t (policy_id, publisher, scope, algorithm, capacity, refill_rate, version, body, created_at, updated_at,
                   place, read_version)
    where p.policy_id = t.policy_id and p.version = t.read_version
    returning 1
)
select 1 / (count(*) = %s)::int from written;

-- name: policy_versions_insert
-- One row for every version, for ever. Primary key.
insert into limit_policy_version (policy_id, version, body, publisher, published_at)
select t.policy_id, t.version, t.body, t.publisher, timestamptz 'epoch' + t.published_at * interval '1 microsecond'
from unnest(%s::text[], %s::bigint[], %s::text[], %s::text[], %s::bigint[])
         as t (policy_id, version, body, publisher, published_at);

-- name: snapshot_standing
-- The revision that policies, shard map and denied callers stand at, which every publication and every change of the
-- others raises by one; and of the newest signed snapshot its revision, and when and by which key it was signed. Primary
-- key, from the right.
select stands.revision, extract(epoch from clock_timestamp())::bigint, s.revision, s.issued_at, s.key_id
from (select coalesce(sum(version), 0)::bigint + (select max(version) from limiter_shard_map)
             + (select version from access_denied_version) as revision from policy) stands
left join (select revision, issued_at, key_id from policy_snapshot order by revision desc, issued_at desc limit 1) s on true;

-- name: snapshot_contents
-- Revision, shard map and everything in force, in one snapshot of the database; a row without policy for each that was
-- withdrawn, and one when there is none.
select m.version + (select version from access_denied_version) + coalesce(sum(p.version) over (), 0)::bigint, m.body,
       case when (p.body::json ->> 'withdrawn')::boolean is not true then p.body end
from (select version, body from limiter_shard_map order by version desc limit 1) m left join policy p on true
order by p.policy_id;

-- name: snapshot_denied
-- Who is denied whole, whenever its tokens were issued; tokens are shown elsewhere. All rows of a bounded table.
select kind, name from access_denied where issued_before is null and kind <> 'token';

-- name: shard_map_newest
-- The map in force. Primary key, from the right.
select body from limiter_shard_map order by version desc limit 1;

-- name: shard_restorable
-- What leases spent, and was not given back, of the buckets of a shard, at whatever shard, as far as it still counts: by
-- bucket, newest first. Leases that do not say their shard may be of any. Index limit_lease_settlement_restorable.
select key_hash, terms, (extract(epoch from ended_at) * 1000000)::bigint, reported - refunded from limit_lease_settlement
where counts_until > now() and reported > refunded
  and key_hash in (select key_hash from limit_lease_settlement where counts_until > now() and shard in (%s, ''))
order by key_hash, ended_at desc;

-- name: shards_kept
-- Until this transaction ends no shard is added. Beside other publications; only one that counts over tenants waits.
select pg_advisory_xact_lock_shared(hashtextextended('millrace:limiter:shards', 0));

-- name: shards_counted
-- Over how many shards counters are spread. Primary key, from the right.
select jsonb_array_length(body::jsonb -> 'shards') from limiter_shard_map order by version desc limit 1;

-- name: shards_added
-- Until this transaction ends no policy that counts over tenants is published; those under way are in the database.
select pg_advisory_xact_lock(hashtextextended('millrace:limiter:shards', 0));

-- name: shard_map_insert
-- The next version: an operator's, refused when another one was first. Primary key.
insert into limiter_shard_map (version, body, changed_by) values (%s, %s, %s);

-- name: snapshot_insert
-- A signed snapshot; one of the same revision and time by another process is as good.
insert into policy_snapshot (revision, issued_at, digest, document, key_id) values (%s, %s, %s, %s, %s) on conflict do nothing;

-- name: snapshot_prune
-- Gateways only ever take the newest. Primary key.
delete from policy_snapshot where (revision, issued_at) < (%s, %s);

-- name: usage_sources
-- How far the decisions of sources are counted. Primary key.
select source, partition, next_number from limit_usage_source where source = any (%s::text[]) and partition = any (%s::int[]);

-- name: usage_source_counted
-- The decisions of sources are counted up to there, in the transaction that moves the position. Primary key.
insert into limit_usage_source (source, partition, next_number)
select * from unnest(%s::text[], %s::int[], %s::bigint[])
on conflict (source, partition) do update set next_number = excluded.next_number, counted_at = now();

-- name: usage_sources_prune
-- Sources whose last block has left Kafka long ago: a gateway that stood still may send the end of its ring again. Index
-- limit_usage_source_counted.
delete from limit_usage_source where counted_at < now() - %s * interval '1 hour';

-- name: usage_estimated
-- About how many totals there are, as the planner knows; -1 = not yet. Primary key of pg_class.
select reltuples::bigint from pg_class where oid = 'limit_usage'::regclass;

-- name: usage_prune
-- Totals of keys that were not counted for so many hours, the longest idle first. Index limit_usage_idle.
delete from limit_usage
where key_digest = any (array(
          select key_digest from limit_usage where seen_hour < now() - %(hours)s * interval '1 hour'
          order by seen_hour limit %(at_most)s))
  and seen_hour < now() - %(hours)s * interval '1 hour'
returning limit_key, key_digest;

-- name: usage_prune_shadows
-- What policies in shadow mode would have refused of these keys. Primary key, from the left.
delete from limit_usage_shadow where key_digest = any (%s::bytea[]);

-- name: usage_prune_refunds
-- What was given back of these keys. Primary key.
delete from limit_usage_refund where limit_key = any (%s::bigint[]);

-- name: usage_add
-- Totals of keys, in the transaction that moves the position. Primary key.
insert into limit_usage as u (limit_key, policy_id, policy_version, allowed, denied, allowed_cost, as_of)
select t.limit_key, t.policy_id, t.policy_version, t.allowed, t.denied, t.allowed_cost,
       timestamptz 'epoch' + t.as_of * interval '1 microsecond'
from unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[])
         as t (limit_key, policy_id, policy_version, allowed, denied, allowed_cost, as_of)
on conflict (key_digest) do update
set allowed = u.allowed + excluded.allowed, denied = u.denied + excluded.denied,
    allowed_cost = u.allowed_cost + excluded.allowed_cost, as_of = greatest(u.as_of, excluded.as_of),
    seen_hour = date_trunc('hour', now()),
    policy_id = excluded.policy_id, policy_version = greatest(u.policy_version, excluded.policy_version);

-- name: usage_add_shadows
-- What policies in shadow mode would have refused, in the transaction that moves the position. Primary key.
insert into limit_usage_shadow as u (key_digest, policy_id, refused, as_of)
select limit_key_digest(t.limit_key), t.policy_id, t.refused, timestamptz 'epoch' + t.as_of * interval '1 microsecond'
from unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[]) as t (limit_key, policy_id, refused, as_of)
on conflict (key_digest, policy_id) do update
set refused = u.refused + excluded.refused, as_of = greatest(u.as_of, excluded.as_of);

-- name: decision_sources
-- How far the decisions of sources are in ClickHouse. Primary key.
select source, partition, next_number from limit_decision_source
where source = any (%s::text[]) and partition = any (%s::int[]);

-- name: decision_sources_counted
-- The decisions of sources are in ClickHouse up to there, in the transaction that marks the plan. Primary key.
insert into limit_decision_source (source, partition, next_number)
select * from unnest(%s::text[], %s::int[], %s::bigint[])
on conflict (source, partition) do update set next_number = excluded.next_number, counted_at = now();

-- name: decision_sources_prune
-- Sources whose last block has left Kafka: none of theirs can come again. Index by time.
delete from limit_decision_source where counted_at < now() - %s * interval '1 millisecond';

-- name: usage_names
-- 'millrace limiter top': the keys behind their hashes. Index limit_usage_by_hash.
select md5(limit_key), limit_key from limit_usage where md5(limit_key) = any (%s::text[]);
