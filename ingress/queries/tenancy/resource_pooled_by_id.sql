-- As resource_heads_by_id, with the row as the pool of this database has it, under the tenant's signed context: one round trip,
-- one snapshot. Primary keys. The context is set before, and the tenant of the row in a list, as in tenant_rows_pooled.
select t.policy_version <= %(policy_version)s::bigint, h.resource_id, h.version, h.created_at, f.payload, r.version, r.payload, r.deleted
from tenant t
left join resource_head h on h.tenant_id = t.tenant_id and h.resource_id = %(resource_id)s::text and not h.deleted
left join resource_feed f on f.tenant_id = h.tenant_id and f.resource_id = h.resource_id
     and f.placement_id = %(placement_id)s::text and f.version = h.version
left join tenancy_pool.resource r on r.tenant_id = any (array[%(tenant_id)s::text]) and r.resource_id = h.resource_id
where (select set_config('app.ctx', %(context)s::text, true)) is not null and t.tenant_id = %(tenant_id)s::text
