-- id: counter_sums
-- title: A counter is as its own events say: as many versions, and none of another owner
-- severity: critical
-- owner: whoever changed the counters
-- source: postgres
select c.id, c.version, count(i.event_id) as committed
from counter c left join idempotency i on i.aggregate_key = c.id and i.status = 'committed' and i.topic = 'commands.counter.v1'
group by c.id, c.version having c.version <> count(i.event_id)
