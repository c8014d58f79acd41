-- The moves of a tenant, newest first: a few over its life. Primary key.
select * from tenant_migration
where tenant_id = %(tenant_id)s::text and (created_at, migration_id) < (%(created_at)s::bigint, %(id)s::text)
order by created_at desc, migration_id desc limit %(limit)s::int
