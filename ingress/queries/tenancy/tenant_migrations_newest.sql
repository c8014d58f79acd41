-- The moves of a tenant, newest first: a few over its life; with how many live resources it has. Primary keys.
select m.*, coalesce(q.used, 0) as resources
from tenant_migration m left join quota_usage q on q.tenant_id = m.tenant_id and q.dimension = 'resources'
where m.tenant_id = %(tenant_id)s::text and (m.created_at, m.migration_id) < (%(created_at)s::bigint, %(id)s::text)
order by m.created_at desc, m.migration_id desc limit %(limit)s::int
