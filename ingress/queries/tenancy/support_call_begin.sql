-- A call under a grant begins: its row, with what the grant allows now. Primary keys, in the function.
select number, word
from tenant_audit_begin(%(tenant)s::text, %(grant_id)s::text, %(actor)s::text, %(action)s::text, %(object)s::text)
