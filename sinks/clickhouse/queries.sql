-- The sink's statements in Postgres. Every one that writes names the epoch: a fenced sink changes nothing.

-- name: fence_ensure
-- Before the first claim: a service that is new brings no row of its own.
insert into sink_fence (sink) values (%(sink)s) on conflict do nothing;

-- name: fence_claim
-- On start and while standing by. No row = somebody else holds the sink, or was asked for it first. Primary key.
update sink_fence
set epoch = epoch + 1, owner_id = %(owner_id)s, heartbeat_at = clock_timestamp(), requested_by = ''
where sink = %(sink)s
  and (owner_id = '' or heartbeat_at < clock_timestamp() - %(lease_ms)s * interval '1 millisecond')
  and (requested_by in ('', %(owner_id)s)
       or requested_at < clock_timestamp() - %(lease_ms)s * interval '1 millisecond')
returning epoch;

-- name: fence_request
-- A swap asks the holder to let go; repeated while it waits.
update sink_fence set requested_by = %(owner_id)s, requested_at = clock_timestamp() where sink = %(sink)s;

-- name: fence_hold
-- First statement of every write, and the heartbeat. No row = fenced. Says whether somebody waits for the sink.
update sink_fence set heartbeat_at = clock_timestamp()
where sink = %(sink)s and epoch = %(epoch)s and owner_id = %(owner_id)s
returning requested_by <> '' and requested_at >= clock_timestamp() - %(lease_ms)s * interval '1 millisecond';

-- name: fence_release
-- After a drain: the next claimant need not wait for the lease.
update sink_fence set owner_id = '', heartbeat_at = clock_timestamp()
where sink = %(sink)s and epoch = %(epoch)s and owner_id = %(owner_id)s;

-- name: positions_read
-- At start: where each partition goes on. Primary key prefix.
select partition, next_offset, last_seq from stream_position where follower = %(sink)s and topic = %(topic)s;

-- name: plan_last
-- On claim: numbers go on from here. Primary key, from the right.
select coalesce(max(plan_id), 0) from sink_plan where sink = %(sink)s;

-- name: plan_open
-- On claim: the block that was about to be inserted, at most one. Partial unique index.
select plan_id, token, sha256, rows from sink_plan where sink = %(sink)s and state = 'planned';

-- name: plan_ranges
-- At recovery: the exact offsets of a plan that may be half done. Primary key prefix.
select partition, first_offset, last_offset, first_seq, last_seq from sink_plan_range
where sink = %(sink)s and plan_id = %(plan_id)s and topic = %(topic)s order by partition;

-- name: plan_insert
-- Before every insert: what the block will hold. Primary key; a plan is written once.
insert into sink_plan (sink, plan_id, epoch, token, sha256, rows, state)
values (%(sink)s, %(plan_id)s, %(epoch)s, %(token)s, %(sha256)b, %(rows)s::jsonb, 'planned');

-- name: plan_ranges_insert
-- With the plan: its offsets per partition.
insert into sink_plan_range (sink, plan_id, topic, partition, first_offset, last_offset, first_seq, last_seq)
select %(sink)s, %(plan_id)s, %(topic)s, t.*
from unnest(%(partitions)s::int[], %(first_offsets)s::bigint[], %(last_offsets)s::bigint[], %(first_seqs)s::bigint[],
            %(last_seqs)s::bigint[]) as t;

-- name: plan_mark
-- After the insert. One row, or this sink was fenced and another one marked it.
update sink_plan set state = 'inserted', inserted_at = clock_timestamp()
where sink = %(sink)s and plan_id = %(plan_id)s and state = 'planned' returning 1;

-- name: positions_advance
-- With plan_mark. A row per range of the plan, or the position was not where the plan began.
insert into stream_position as p (follower, topic, partition, next_offset, last_seq, epoch, holder)
select r.sink, r.topic, r.partition, r.last_offset + 1, r.last_seq, %(epoch)s, %(owner_id)s
from sink_plan_range r
left join stream_position o on o.follower = r.sink and o.topic = r.topic and o.partition = r.partition
where r.sink = %(sink)s and r.plan_id = %(plan_id)s and r.first_seq = coalesce(o.last_seq, 0) + 1
on conflict (follower, topic, partition) do update
    set next_offset = excluded.next_offset, last_seq = excluded.last_seq, epoch = excluded.epoch, holder = excluded.holder,
        updated_at = now()
returning p.partition;

-- name: topic_seen
-- When a sink begins: which topic each partition is read in, if that was not known. Primary key.
insert into stream_position as p (follower, topic, partition, next_offset, last_seq, topic_id)
select %(sink)s, %(topic)s, n.partition, 0, 0, %(topic_id)s from unnest(%(partitions)s::int[]) as n (partition)
on conflict (follower, topic, partition) do update
    set topic_id = case when p.topic_id = '' then excluded.topic_id else p.topic_id end
returning p.partition, p.topic_id;

-- name: plans_prune
-- Now and then: plans that are done and no operator asks about any more. Primary key range.
delete from sink_plan where sink = %(sink)s and state = 'inserted' and plan_id <= %(plan_id)s;

-- name: checkpoint_insert
-- A sink that restarts from a plan leaves a checkpoint.
insert into recovery_checkpoint (name, scenario, operation_id, projection_checkpoint, retry_policy, reconciliation_status, owner)
values (%(name)s, %(scenario)s, %(operation_id)s, %(positions)s::jsonb, %(retry_policy)s::jsonb, %(status)s, %(owner)s)
on conflict (name) do nothing;
