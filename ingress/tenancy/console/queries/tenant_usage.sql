-- Usage by dimension and day of the tenant's calendar, of the newest events of each. Index usage_event_time, walked from
-- dimension to dimension.
with recursive dimension (name) as (
    (select e.dimension from usage_event e where e.tenant_id = %(tenant)s order by e.dimension limit 1)
    union all
    select (select e.dimension from usage_event e where e.tenant_id = %(tenant)s and e.dimension > d.name order by e.dimension limit 1)
    from dimension d where d.name is not null)
select d.name as dimension, (e.occurred_at at time zone %(zone)s)::date as day, sum(e.quantity) as quantity, count(*) as events
from (select name from dimension where name is not null limit %(dimensions)s) d
cross join lateral (
    select u.occurred_at, u.quantity from usage_event u
    where u.tenant_id = %(tenant)s and u.dimension = d.name and u.occurred_at > now() - %(days)s * interval '1 day'
    order by u.occurred_at desc limit %(counted)s) e
group by 1, 2 order by 1, 2
