-- How far each reader of events is: the sinks, and the telling of merchants. One row for each reader and partition.
select s.sink, s.topic, s.partition, s.last_seq, s.next_offset, s.updated_at, f.owner_id, f.epoch, f.heartbeat_at
from sink_position s join sink_fence f on f.sink = s.sink
union all
select 'merchant webhooks', %(payments)s, p.partition, p.last_seq, p.next_offset, null, null, null, null
from merchant_webhook_position p
order by 1, 2, 3 limit %(limit)s
