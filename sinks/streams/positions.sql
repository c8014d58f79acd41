-- The positions of followers (sinks/streams/positions.py), all by primary key.

-- name: positions_read
-- Before a claim: which partitions were followed before.
select partition, next_offset, last_seq from stream_position
where follower = %(follower)s and topic = %(topic)s and partition = any(%(partitions)s::int[]);

-- name: positions_committed
-- Before a claim: the newest event of each partition that the database has, null where it has none.
select partition, seq from newest_committed(%(topic)s, %(partitions)s::int[]);

-- name: positions_claim
-- When Kafka gave us partitions: whoever had them can store nothing any more. What is given is where a new row begins.
insert into stream_position as p (follower, topic, partition, epoch, holder, next_offset, last_seq, topic_id)
select %(follower)s, %(topic)s, n.partition, 1, %(holder)s, n.next_offset, n.last_seq, %(topic_id)s
from unnest(%(partitions)s::int[], %(next_offsets)s::bigint[], %(last_seqs)s::bigint[])
    as n (partition, next_offset, last_seq)
on conflict (follower, topic, partition) do update
    set epoch = p.epoch + 1, holder = excluded.holder,
        topic_id = case when p.topic_id = '' then excluded.topic_id else p.topic_id end
returning p.partition, p.epoch, p.next_offset, p.last_seq, p.topic_id;

-- name: positions_advance
-- Behind what is done. Fewer rows than partitions: another process has taken one, or it does not stand where we began.
update stream_position p
set next_offset = n.next_offset, last_seq = n.last_seq, updated_at = now()
from unnest(%(partitions)s::int[], %(epochs)s::bigint[], %(seqs_before)s::bigint[], %(next_offsets)s::bigint[],
            %(last_seqs)s::bigint[]) as n (partition, epoch, seq_before, next_offset, last_seq)
where p.follower = %(follower)s and p.topic = %(topic)s and p.partition = n.partition
  and p.epoch = n.epoch and p.last_seq = n.seq_before
returning p.partition;

-- name: positions_move
-- Of a stream of records without seq, behind what is done; never back. Fewer rows than partitions: another process has one.
update stream_position p
set next_offset = greatest(p.next_offset, n.next_offset), updated_at = now()
from unnest(%(partitions)s::int[], %(epochs)s::bigint[], %(next_offsets)s::bigint[]) as n (partition, epoch, next_offset)
where p.follower = %(follower)s and p.topic = %(topic)s and p.partition = n.partition and p.epoch = n.epoch
returning p.partition;

-- name: positions_witnesses
-- After a claim, of records without seqs that may not be passed over: the leader that took the last one that was read.
-- A position that an operator set anew has none.
select partition, leader_epoch from stream_position
where follower = %(follower)s and topic = %(topic)s and leader_epoch is not null and read_offset = next_offset
  and topic_id <> '';

-- name: positions_keep_topic
-- When a partition is read for the first time, and when an operator set its position anew: which topic its offset is of.
update stream_position p
set topic_id = %(topic_id)s
from unnest(%(partitions)s::int[], %(epochs)s::bigint[]) as n (partition, epoch)
where p.follower = %(follower)s and p.topic = %(topic)s and p.partition = n.partition and p.epoch = n.epoch
  and p.topic_id = '';

-- name: positions_of_topic
-- Of a stream of records without seq, when it is read for the first time or its topic was made again: which topic its
-- offset is of, and the offset there.
update stream_position p
set topic_id = %(topic_id)s, next_offset = n.next_offset, updated_at = now()
from unnest(%(partitions)s::int[], %(epochs)s::bigint[], %(next_offsets)s::bigint[]) as n (partition, epoch, next_offset)
where p.follower = %(follower)s and p.topic = %(topic)s and p.partition = n.partition and p.epoch = n.epoch;

-- name: positions_follow
-- Behind what is done, which begins where the position stands. Fewer rows than partitions: another process has one, or an
-- operator has set its position anew.
update stream_position p
set next_offset = n.next_offset, read_offset = n.next_offset, leader_epoch = nullif(n.leader_epoch, -1), updated_at = now()
from unnest(%(partitions)s::int[], %(epochs)s::bigint[], %(offsets_before)s::bigint[], %(next_offsets)s::bigint[],
            %(leader_epochs)s::int[]) as n (partition, epoch, offset_before, next_offset, leader_epoch)
where p.follower = %(follower)s and p.topic = %(topic)s and p.partition = n.partition and p.epoch = n.epoch
  and p.next_offset = n.offset_before
returning p.partition;

-- name: positions_hold
-- A sign of life of who follows a stream of records, for those that stand by. No row: another process has it.
update stream_position set held_at = now()
where follower = %(follower)s and topic = %(topic)s and partition = %(partition)s and epoch = %(epoch)s
returning partition;

-- name: positions_release
-- Who followed leaves, if nobody has taken its place: who stands by need not wait.
update stream_position set held_at = null
where follower = %(follower)s and topic = %(topic)s and partition = %(partition)s and epoch = %(epoch)s;

-- name: positions_held
-- Whether somebody follows a stream of records, as far as that was said.
select exists(
    select from stream_position
    where follower = %(follower)s and topic = %(topic)s and held_at > now() - %(lease_s)s * interval '1 second'
);
