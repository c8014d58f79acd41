-- What was done under grants of a tenant, newest first, with the hash of what each row was last. Primary key, from the right.
select seq, at, actor, grant_id, action, object, result, encode(coalesce(end_hash, begin_hash), 'hex') as hash
from tenant_audit
where tenant_id = %(tenant)s order by seq desc limit %(limit)s
