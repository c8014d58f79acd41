-- How far each reader of events is: the sinks, and the followers. One row for each reader and partition.
select s.sink, s.topic, s.partition, s.last_seq, s.next_offset, s.updated_at, f.owner_id, f.epoch, f.heartbeat_at
from sink_position s join sink_fence f on f.sink = s.sink
union all
select p.follower, p.topic, p.partition, p.last_seq, p.next_offset, p.updated_at, p.holder, p.epoch, null
from stream_position p
order by 1, 2, 3 limit %(limit)s
