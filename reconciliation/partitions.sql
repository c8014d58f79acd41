-- Partitions and their owners, for the operator.

-- name: partitions_page
-- `millrace partitions list`: who owns what and how far it is. The whole table: one row per partition.
select o.topic, o.partition, o.owner_id, o.epoch, o.next_offset, o.offset_base, o.topic_id, o.published_seq, o.halted,
       o.updated_at, o.resumed_by, o.resume_note
from partition_owner o order by o.topic, o.partition;

-- name: partition_resume
-- `millrace partitions resume`: a halted partition may go on. Primary key.
update partition_owner
set halted = null, resumed_at = clock_timestamp(), resumed_by = %(operator)s, resume_note = %(note)s
where topic = %(topic)s and partition = %(partition)s and halted is not null
returning partition;

-- name: partition_resume_from
-- `millrace partitions resume --from`: it goes on at this offset of the topic that is there now, at places above all that
-- are decided. Primary key.
with free as (
    select topic, partition, greatest(next_offset, (select max(k::bigint) + 1 from jsonb_object_keys(ahead) k)) as place
    from partition_owner where topic = %(topic)s and partition = %(partition)s and halted is not null for update)
update partition_owner o
set halted = null, resumed_at = clock_timestamp(), resumed_by = %(operator)s, resume_note = %(note)s, topic_id = %(topic_id)s,
    next_offset = free.place, ahead = '{}', offset_base = free.place - %(offset)s, read_offset = null
from free where o.topic = free.topic and o.partition = free.partition
returning o.partition;

-- name: partition_hold
-- The last step of `millrace partitions republish`: until the end of the transaction nothing is committed. Primary key.
select 1 from partition_owner where topic = %(topic)s and partition = %(partition)s for update;

-- name: outbox_last
-- `millrace partitions republish`: the newest event. Primary key.
select coalesce(max(seq), 0) from outbox where topic = %(topic)s and partition = %(partition)s;

-- name: outbox_page
-- `millrace partitions republish`: the next events, in order. Primary key range.
select seq, payload, aggregate_key from outbox
where topic = %(topic)s and partition = %(partition)s and seq >= %(from_seq)s order by seq limit %(limit)s;
