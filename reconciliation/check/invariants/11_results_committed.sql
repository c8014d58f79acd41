-- id: results
-- title: Committed results and events are a bijection, about the same aggregate
-- severity: critical
-- owner: owner
-- source: postgres
select event_id, i.merchant_id, i.key, i.aggregate_key as result_aggregate, o.aggregate_key as event_aggregate, o.partition, o.seq
from (select * from idempotency where status = 'committed') i
full join outbox o using (event_id)
where i.aggregate_key is distinct from o.aggregate_key or i.partition is distinct from o.partition
   or length(i.request_hash) is distinct from 32
   -- an answer that is rendered from its event finds it where its id says
   or (o.topic, o.seq) is distinct from (replace(i.topic, 'commands.', 'events.'), answer_event_seq(i.response, i.event_id))
      and i.response < '\x20'::bytea
union all
select event_id, min(merchant_id), min(key), 'several results of one event', null, null, count(*)
from idempotency where event_id is not null group by event_id having count(*) > 1
