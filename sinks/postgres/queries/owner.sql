-- The partition owner's own statements, the same for every service. Each names its index.

-- name: partition_acquire
-- On assignment. Bumps the epoch: whoever held the partition before is fenced from here on. Primary key.
insert into partition_owner as o (topic, partition, epoch, owner_id)
values (%(topic)s, %(partition)s, 1, %(owner_id)s)
on conflict (topic, partition) do update
    set epoch = o.epoch + 1, owner_id = excluded.owner_id, updated_at = clock_timestamp()
returning epoch, next_offset, published_seq, halted, topic_id, offset_base,
          case when read_offset = next_offset then leader_epoch end,
          coalesce((extract(epoch from decided_at) * 1000000)::bigint, 0), signed_from, ahead;

-- name: partition_position
-- After partition_acquire, in a snapshot of its own: the newest event that the owner before us committed. Primary key.
select seq, (extract(epoch from occurred_at) * 1000000)::bigint from outbox
where topic = %(topic)s and partition = %(partition)s order by seq desc limit 1;

-- name: partition_keep_topic
-- When a partition is taken for the first time: which topic its offsets are of.
update partition_owner set topic_id = %(topic_id)s
where topic = %(topic)s and partition = %(partition)s and epoch = %(epoch)s and topic_id is null;

-- name: partition_keep_signed_from
-- When a partition of an earlier release is taken for the first time: where its unsigned records end.
update partition_owner set signed_from = %(signed_from)s
where topic = %(topic)s and partition = %(partition)s and epoch = %(epoch)s and signed_from is null;

-- name: partition_release
-- After a drain: nobody owns it until the next assignment.
update partition_owner
set owner_id = '', published_seq = greatest(published_seq, %(published_seq)s), updated_at = clock_timestamp()
where topic = %(topic)s and partition = %(partition)s and epoch = %(epoch)s;

-- name: partitions_claim
-- First statement of every transaction, for each partition that it has commands of: compare-and-set on (epoch,
-- next_offset). A partition that does not come back is fenced; with each comes the time, beside which the owner's is
-- judged. Its batch begins exactly where the one before it ended, so
-- that no command is passed over and none is decided at two places; where callers take turns, what is decided above
-- next_offset is stored with it. Partitions ascend: locks are taken in one order.
update partition_owner o
set next_offset = b.next_offset, published_seq = greatest(o.published_seq, b.published_seq), updated_at = clock_timestamp(),
    leader_epoch = nullif(b.leader_epoch, -1), read_offset = b.next_offset,
    decided_at = greatest(o.decided_at, b.decided_at), ahead = b.ahead::jsonb
from unnest(%s::int[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::timestamptz[], %s::int[], %s::text[])
         as b (partition, epoch, first_offset, next_offset, published_seq, decided_at, leader_epoch, ahead)
where o.topic = %s and o.partition = b.partition and o.epoch = b.epoch and o.next_offset = b.first_offset
returning o.partition, (extract(epoch from clock_timestamp()) * 1000000)::bigint;

-- name: clock_read
-- Before an owner joins its group: whose clock is off takes no partition from anybody.
select (extract(epoch from clock_timestamp()) * 1000000)::bigint;

-- name: partition_halt
-- After a broken invariant: no owner goes on until an operator clears it.
update partition_owner set halted = %(reason)s, updated_at = clock_timestamp()
where topic = %(topic)s and partition = %(partition)s and epoch = %(epoch)s;

-- name: partitions_cleared
-- Every second while a partition of ours is halted: those that an operator has let go on.
select partition from partition_owner
where topic = %(topic)s and partition = any (%(partitions)s::int[]) and halted is null;

-- name: partition_mark
-- When idle: stores how far events are published, so that a take-over repeats little.
update partition_owner
set published_seq = greatest(published_seq, %(published_seq)s)
where topic = %(topic)s and partition = %(partition)s and epoch = %(epoch)s;

-- name: identities_read
-- Prior results of a batch, with the events that answers are rendered from. Primary keys, one probe per command.
select i.merchant_id, i.key, i.request_hash, i.response, i.status, o.payload
from unnest(%s::text[], %s::text[]) as t (merchant_id, key)
join idempotency i on i.merchant_id = t.merchant_id and i.key = t.key
left join outbox o on o.topic = replace(i.topic, 'commands.', 'events.') and o.partition = i.partition
    and o.seq = answer_event_seq(i.response, i.event_id);

-- name: parked_read
-- Aggregates that refuse work. Primary key; nearly always an empty table.
select aggregate_key from parked_aggregate where aggregate_key = any (%s::text[]);

-- name: identities_insert
-- Results of a batch, keys sorted: two owners that race for one key wait in one order. The one that loses fails and repeats.
insert into idempotency (merchant_id, key, request_hash, response, status, operation, request_id, aggregate_key,
                         event_id, topic, partition, "offset", created_at, sender)
select t.merchant_id, t.key, t.request_hash, t.response, t.status, t.operation, t.request_id, t.aggregate_key,
       nullif(t.event_id, ''), %s, t.partition, t."offset", t.created_at, t.sender
from unnest(%s::text[], %s::text[], %s::bytea[], %s::bytea[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
            %s::int[], %s::bigint[], %s::timestamptz[], %s::text[])
         as t (merchant_id, key, request_hash, response, status, operation, request_id, aggregate_key, event_id,
               partition, "offset", created_at, sender);

-- name: outbox_insert
-- Events of a batch in commit order. Appended on the right of the primary key.
insert into outbox (topic, partition, seq, event_id, aggregate_key, version, scope, payload, occurred_at)
select %s, t.partition, t.seq, t.event_id, t.aggregate_key, t.version, t.scope, t.payload, t.occurred_at
from unnest(%s::int[], %s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::bytea[], %s::timestamptz[])
         as t (partition, seq, event_id, aggregate_key, version, scope, payload, occurred_at);

-- name: outbox_unpublished
-- After a take-over: what may not have reached Kafka yet. Primary key range.
select seq, aggregate_key, payload from outbox
where topic = %(topic)s and partition = %(partition)s and seq > %(after_seq)s
order by seq limit %(limit)s;

-- name: noisy_upsert
-- Every window in which callers had others wait, in the commit after it. Primary key.
insert into noisy_caller as n (topic, caller, partition, share_percent, units_left, windows, since, seen_at)
select %(topic)s, t.caller, t.partition, t.share, t.units_left, 1, clock_timestamp(), clock_timestamp()
from unnest(%(callers)s::text[], %(partitions)s::int[], %(shares)s::int[], %(left)s::bigint[])
         as t (caller, partition, share, units_left)
on conflict (topic, caller, partition) do update
set share_percent = excluded.share_percent, units_left = excluded.units_left, seen_at = excluded.seen_at,
    windows = case when n.seen_at < excluded.seen_at - make_interval(secs => %(again_s)s) then 1 else n.windows + 1 end,
    since = case when n.seen_at < excluded.seen_at - make_interval(secs => %(again_s)s) then excluded.since else n.since end,
    move_proposed_at = case when n.windows + 1 >= %(move_windows)s
                                 and n.seen_at >= excluded.seen_at - make_interval(secs => %(again_s)s)
                            then coalesce(n.move_proposed_at, excluded.seen_at) else n.move_proposed_at end;

-- name: records_refused_insert
-- Records whose sender may not say what they say, while there is room: kept for people, believed by nobody. Served by
-- dead_letter_refused.
insert into dead_letter (topic, partition, "offset", reason, record, parked_at, published, state)
select %(topic)s, %(partition)s, t."offset", t.reason, t.record, clock_timestamp(), true, 'refused'
from unnest(%(offsets)s::bigint[], %(reasons)s::text[], %(records)s::bytea[]) as t ("offset", reason, record)
where (select count(*) from dead_letter d where d.topic = %(topic)s and d.partition = %(partition)s and d.state = 'refused')
      < %(kept_max)s
on conflict do nothing;

-- name: dead_letter_insert
-- Parks one record, as it came.
insert into dead_letter (topic, partition, "offset", aggregate_key, merchant_id, request_id, reason, record, parked_at)
values (%(topic)s, %(partition)s, %(offset)s, %(aggregate_key)s, %(merchant_id)s, %(request_id)s, %(reason)s,
        %(record)b, clock_timestamp())
on conflict do nothing;

-- name: parked_aggregate_insert
-- The aggregate of a parked command refuses work until an operator decides.
insert into parked_aggregate (aggregate_key, topic, partition, "offset", reason, parked_at)
values (%(aggregate_key)s, %(topic)s, %(partition)s, %(offset)s, %(reason)s, clock_timestamp())
on conflict do nothing;

-- name: retried_read
-- A batch with commands that say they were parked: what operators let try again of these. dead_letter_request.
select record from dead_letter where topic = %s and state = 'retried' and request_id = any (%s::text[]);

-- name: dead_letters_unpublished
-- After a take-over and after parking: copies for the dead-letter topic. Primary key range.
select "offset", aggregate_key, reason, (extract(epoch from parked_at) * 1000000)::bigint, record from dead_letter
where topic = %(topic)s and partition = %(partition)s and not published order by "offset" limit %(limit)s;

-- name: dead_letters_mark
-- After Kafka has acknowledged the copies. Primary key.
update dead_letter set published = true
where topic = %(topic)s and partition = %(partition)s and "offset" = any (%(offsets)s::bigint[]);
