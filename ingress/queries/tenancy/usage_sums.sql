-- GET /v1/usage: exact sums by window and group. Index usage_event_time.
select width_bucket(occurred_at, %(bounds)s::timestamptz[]) - 1,
       case %(group)s::text when 'subject' then subject when 'source' then source end,
       sum(quantity), count(*)
from usage_event
where tenant_id = %(tenant)s::text and dimension = %(dimension)s::text
  and occurred_at >= %(from)s::timestamptz and occurred_at < %(to)s::timestamptz
group by 1, 2 order by 1, 2 limit %(limit)s::int
