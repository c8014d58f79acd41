-- How far each follower of events is. One row for each follower and partition; of the sinks also whether they live.
select p.follower as sink, p.topic, p.partition, p.last_seq, p.next_offset, p.updated_at, coalesce(f.owner_id, p.holder) as owner_id,
    coalesce(f.epoch, p.epoch) as epoch, f.heartbeat_at
from stream_position p left join sink_fence f on f.sink = p.follower
order by 1, 2, 3 limit %(limit)s
