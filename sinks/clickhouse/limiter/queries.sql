-- What an operator asks ClickHouse about quotas at a shell.

-- name: busiest
-- 'millrace limiter top': what asked most since a minute, by one figure. Ordered by minute first, so a few parts are read.
select multiIf({what:String} = 'tenant', r.tenant, {what:String} = 'route', concat(r.tenant, ' ', r.route),
               {what:String} = 'policy', toString(r.policy_id), r.key_hash) as name, any(tenant) as tenant, any(route) as route, argMax(r.policy_id, r.allowed + r.denied + r.repeated) as policy_id,
       sum(r.allowed) + sum(r.denied) as asked, sum(r.allowed) as allowed, sum(r.denied) as denied,
       sum(r.repeated) as repeated, sum(r.degraded) as degraded, sum(r.allowed_cost) as cost,
       sum(r.refused_in_shadow) as shadow
from limit_keys_by_minute as r final
where minute >= toDateTime({since:UInt32}, 'UTC')
group by name
having multiIf({by:String} = 'denied', denied, {by:String} = 'cost', cost, {by:String} = 'degraded', degraded,
        {by:String} = 'shadow', shadow, asked) > 0
order by multiIf({by:String} = 'denied', denied, {by:String} = 'cost', cost, {by:String} = 'degraded', degraded,
        {by:String} = 'shadow', shadow, asked) desc,
         name
limit {limit:UInt32};

-- name: busiest_as_of
-- The last minute that has decisions, and decisions that are lost to the stream.
select (select toUnixTimestamp(max(minute)) from limit_keys_by_minute), (select gap from limit_gap);
