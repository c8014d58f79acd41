-- GET /v1/resources: live heads, newest first, with images that are still on their way; nulls where there is none. Before them
-- whether the tenant's policy is still the one that the read was decided by. Primary key, resource_head_live.
select t.policy_version <= %(policy_version)s::bigint, h.resource_id, h.version, h.created_at, f.payload
from tenant t
left join lateral (
    select n.tenant_id, n.resource_id, n.version, n.created_at
    from resource_head n
    where n.tenant_id = %(tenant_id)s::text and not n.deleted
      and (n.created_at, n.resource_id) < (%(created_at)s::bigint, %(id)s::text)
    order by n.created_at desc, n.resource_id desc limit %(limit)s::int) h on true
left join resource_feed f on f.tenant_id = h.tenant_id and f.resource_id = h.resource_id
     and f.placement_id = %(placement_id)s::text and f.version = h.version
where t.tenant_id = %(tenant_id)s::text
order by h.created_at desc, h.resource_id desc
