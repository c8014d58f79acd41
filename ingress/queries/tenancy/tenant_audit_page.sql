-- GET /v1/audit: the calls of support at a tenant, newest first; of one grant, if one is named. Primary key, tenant_audit_of_grant.
select seq, (extract(epoch from at) * 1000000)::bigint, actor, grant_id, action, object, result
from tenant_audit
where tenant_id = %(merchant)s::text and (%(grant_id)s::text is null or grant_id = %(grant_id)s::text)
  and (seq, '') < (%(created_at)s::bigint, %(id)s::text)
order by seq desc limit %(limit)s::int
