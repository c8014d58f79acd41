-- What of metered entitlements is used: exact sums, of each dimension in its span, by the place of the question. Index
-- usage_event_time.
select s.place - 1, sum(e.quantity)
from unnest(%(dimensions)s::text[], %(froms)s::timestamptz[], %(tos)s::timestamptz[]) with ordinality
         as s (dimension, begins, ends, place)
join usage_event e on e.tenant_id = %(tenant)s::text and e.dimension = s.dimension
    and e.occurred_at >= s.begins and e.occurred_at < s.ends
group by s.place
