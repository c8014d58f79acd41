-- GET /v1/resources: live heads, newest first, with images that are still on their way. Served by resource_head_live.
select h.resource_id, h.version, h.created_at, f.payload
from resource_head h
left join resource_feed f on f.tenant_id = h.tenant_id and f.resource_id = h.resource_id
     and f.placement_id = %(placement_id)s::text and f.version = h.version
where h.tenant_id = %(tenant_id)s::text and not h.deleted
  and (h.created_at, h.resource_id) < (%(created_at)s::bigint, %(id)s::text)
order by h.created_at desc, h.resource_id desc limit %(limit)s::int
