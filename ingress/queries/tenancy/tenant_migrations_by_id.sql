-- A move of a tenant, with how many live resources that has. Primary keys.
select m.*, coalesce(q.used, 0) as resources
from tenant_migration m left join quota_usage q on q.tenant_id = m.tenant_id and q.dimension = 'resources'
where m.tenant_id = %(tenant_id)s::text and m.migration_id = %(migration_id)s::text
