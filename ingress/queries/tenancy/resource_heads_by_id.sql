-- The live head of a resource, with its image where that is still on its way. Primary key.
select h.resource_id, h.version, h.created_at, f.payload
from resource_head h
left join resource_feed f on f.tenant_id = h.tenant_id and f.resource_id = h.resource_id
     and f.placement_id = %(placement_id)s::text and f.version = h.version
where h.tenant_id = %(tenant_id)s::text and h.resource_id = %(resource_id)s::text and not h.deleted
