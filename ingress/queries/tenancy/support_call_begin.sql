-- A call under a grant begins: its row, with what the grant allows now. Primary keys, in the function.
select c.number, c.word, g.masked_fields
from tenant_audit_begin(%(tenant)s::text, %(grant_id)s::text, %(actor)s::text, %(action)s::text, %(object)s::text) c
join support_grant g on g.tenant_id = %(tenant)s::text and g.grant_id = %(grant_id)s::text
