-- GET /v1/usage_dimensions: what a tenant metered, by name. Index usage_event_time, walked from dimension to dimension; of each
-- its newest event.
with recursive dimension (name) as (
    (select e.dimension from usage_event e
     where e.tenant_id = %(tenant)s::text and e.dimension > %(after)s::text order by e.dimension limit 1)
    union all
    select (select e.dimension from usage_event e where e.tenant_id = %(tenant)s::text and e.dimension > d.name order by e.dimension limit 1)
    from dimension d where d.name is not null)
select d.name, (extract(epoch from e.occurred_at) * 1000000)::bigint
from (select name from dimension where name is not null limit %(limit)s::int) d
cross join lateral (
    select u.occurred_at from usage_event u
    where u.tenant_id = %(tenant)s::text and u.dimension = d.name
    order by u.occurred_at desc limit 1) e
order by d.name
