-- Which of the callers that listen got an event between two places. Served by outbox_scope.
select distinct s.scope
from unnest(%(scopes)s::text[]) as s (scope)
cross join unnest(%(partitions)s::int[], %(after)s::bigint[], %(until)s::bigint[]) as c (partition, after, until)
where exists (
    select 1 from outbox o
    where o.scope = s.scope and o.topic = %(topic)s and o.partition = c.partition
      and o.seq > c.after and o.seq <= c.until
)
