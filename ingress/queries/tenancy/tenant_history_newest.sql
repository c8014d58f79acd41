-- GET /v1/tenants/{tenant_id}/history: newest first. Primary key, from the right.
select version, at, made_by, person, operation, request_id, changed from tenant_history
where tenant_id = %(tenant_id)s::text and version < %(version)s::bigint
order by version desc limit %(limit)s::int
