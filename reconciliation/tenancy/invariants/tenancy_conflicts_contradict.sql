-- id: tenancy_conflicts_contradict
-- title: Every contradiction is of an event that counts, and says something else
-- severity: major
-- owner: whoever changed the metering
-- source: postgres
select c.tenant_id, c.source, c.event_id, e.event_id is null as is_of_nothing
from usage_conflict c
left join usage_event e on e.tenant_id = c.tenant_id and e.source = c.source and e.event_id = c.event_id
where e.event_id is null
   or (e.dimension, e.quantity, e.subject, e.occurred_at)
      is not distinct from (c.dimension, c.quantity, c.subject, c.occurred_at)
