-- And ends, before its answer is given. Primary key, in the function.
select tenant_audit_end(%(tenant)s::text, %(number)s::bigint, %(word)s::text)
