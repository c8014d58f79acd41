-- id: tenancy_writes_metered
-- title: Every committed write of a resource is metered once, as far as the events are followed
-- severity: critical
-- owner: whoever changed the metering
-- source: postgres
with followed as (
    select partition, last_seq from stream_position
    where follower = 'tenancy_own_usage' and topic = 'events.tenancy.v1'),
committed as (
    select o.partition + 4 as partition, count(*) as writes
    from outbox o join followed f on f.partition = o.partition and o.seq <= f.last_seq
    join idempotency i on i.event_id = o.event_id and i.aggregate_key = o.aggregate_key
    where o.topic = 'events.tenancy.v1' and i.topic = 'commands.tenancy.v1'
      and i.operation in ('create_resource', 'replace_resource', 'delete_resource')
    group by o.partition),
metered as (
    select partition, count(*) as events, sum(quantity) as quantity from usage_event
    where source = 'urn:millrace:resources' group by partition),
removed as (select partition, floor_seq from usage_counted where partition >= 4 and floor_seq > 0)
select partition, c.writes, m.events, m.quantity, r.floor_seq as removed
from committed c full join metered m using (partition) full join removed r using (partition)
where coalesce(c.writes, 0) <> coalesce(m.events, 0) + coalesce(r.floor_seq, 0) or m.events <> m.quantity
