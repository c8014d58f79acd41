-- The keys of a tenant, wrapped. Primary key.
select key_version, root_key_id, wrapped, state, certificate_id from tenant_key where tenant_id = %(tenant_id)s::text order by key_version
