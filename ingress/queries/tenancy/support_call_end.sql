-- And ends, with its lines, before its answer is given. Primary key, in the function.
select tenant_audit_end(%(tenant)s::text, e.number, e.word)
from unnest(%(numbers)s::bigint[], %(words)s::text[]) as e (number, word)
