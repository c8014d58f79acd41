-- What was done under grants of a tenant, newest first. Primary key, from the right.
select seq, at, actor, grant_id, action, object, result from tenant_audit
where tenant_id = %(tenant)s order by seq desc limit %(limit)s
