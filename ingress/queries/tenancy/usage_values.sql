-- GET /v1/usage with an aggregation that no sum tells: of the quantities of single events. Index usage_event_time.
select width_bucket(occurred_at, %(bounds)s::timestamptz[]) - 1,
       case %(group)s::text when 'subject' then subject when 'source' then source end,
       case %(aggregation)s::text
           when 'min' then min(quantity)
           when 'max' then max(quantity)
           when 'latest' then (array_agg(quantity order by occurred_at desc, source desc, event_id desc))[1]
           when 'unique' then count(distinct subject)
           when 'average' then avg(quantity)
           else percentile_disc(%(fraction)s::double precision) within group (order by quantity)
       end, count(*)
from usage_event
where tenant_id = %(tenant)s::text and dimension = %(dimension)s::text
  and occurred_at >= %(from)s::timestamptz and occurred_at < %(to)s::timestamptz
group by 1, 2 order by 1, 2 limit %(limit)s::int
