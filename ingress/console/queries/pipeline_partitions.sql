-- Who owns each partition, and how far its events are. One row for each partition; the newest event by primary key.
select o.topic, replace(o.topic, 'commands.', 'events.') as events, o.partition, o.owner_id, o.epoch, o.next_offset - o.offset_base as next_offset, o.published_seq, o.halted,
       o.updated_at, o.resumed_by,
       coalesce((select b.seq from outbox b where b.topic = replace(o.topic, 'commands.', 'events.') and b.partition = o.partition
                 order by b.seq desc limit 1), 0) as last_seq
from partition_owner o order by o.topic, o.partition limit %(limit)s
