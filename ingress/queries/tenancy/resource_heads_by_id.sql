-- The live head of a resource, with its image where that is still on its way; nulls where there is none. Before them whether
-- the tenant's policy is still the one that the read was decided by. Primary keys.
select t.policy_version <= %(policy_version)s::bigint, h.resource_id, h.version, h.created_at, f.payload
from tenant t
left join resource_head h on h.tenant_id = t.tenant_id and h.resource_id = %(resource_id)s::text and not h.deleted
left join resource_feed f on f.tenant_id = h.tenant_id and f.resource_id = h.resource_id
     and f.placement_id = %(placement_id)s::text and f.version = h.version
where t.tenant_id = %(tenant_id)s::text
