-- An export of a tenant. Primary key.
select tenant_id, export_id, state, resources, sha256, created_at from tenant_export
where tenant_id = %(tenant_id)s::text and export_id = %(export_id)s::text
