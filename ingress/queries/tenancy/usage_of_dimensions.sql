-- What of metered entitlements is used: exact sums of a span. Index usage_event_time.
select dimension, sum(quantity)
from usage_event
where tenant_id = %(tenant)s::text and dimension = any(%(dimensions)s::text[])
  and occurred_at >= %(from)s::timestamptz and occurred_at < %(to)s::timestamptz
group by dimension
