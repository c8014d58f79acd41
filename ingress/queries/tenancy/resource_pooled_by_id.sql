-- As resource_heads_by_id, with the row as the pool of this database has it, under the tenant's signed context: one round trip,
-- one snapshot. Primary keys. The context is set as the tenant is found, of which a nested loop looks for everything else: so it is
-- set when the policy asks. An equality of the row's tenant would be asked once, with the policy's: "is true" keeps it to the row.
select t.policy_version <= %(policy_version)s::bigint, h.resource_id, h.version, h.created_at, f.payload, r.version, r.payload, r.deleted
from tenant t
left join resource_head h on h.tenant_id = t.tenant_id and h.resource_id = %(resource_id)s::text and not h.deleted
left join resource_feed f on f.tenant_id = h.tenant_id and f.resource_id = h.resource_id
     and f.placement_id = %(placement_id)s::text and f.version = h.version
left join tenancy_pool.resource r on (r.tenant_id = %(tenant_id)s::text) is true and r.resource_id = h.resource_id
where t.tenant_id = %(tenant_id)s::text and (set_config('app.ctx', %(context)s::text, true) = t.tenant_id) is not null
