-- A move of a tenant. Primary key.
select * from tenant_migration where tenant_id = %(tenant_id)s::text and migration_id = %(migration_id)s::text
