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
    where source = 'urn:millrace:resources' group by partition)
select coalesce(c.partition, m.partition) as partition, c.writes, m.events, m.quantity
from committed c full join metered m on m.partition = c.partition
where c.writes is distinct from m.events or m.events <> m.quantity
