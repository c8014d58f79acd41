-- The exports of a tenant, newest first: a few over its life. Primary key.
select tenant_id, export_id, state, resources, sha256, created_at from tenant_export
where tenant_id = %(tenant_id)s::text and (created_at, export_id) < (%(created_at)s::bigint, %(id)s::text)
order by created_at desc, export_id desc limit %(limit)s::int
