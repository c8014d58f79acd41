-- The lines of a list begin: a row for each, with what the grant allows now. Primary keys, in the function.
select c.number, c.word
from unnest(%(actions)s::text[], %(objects)s::text[]) with ordinality as l (action, object, place)
cross join lateral tenant_audit_begin(%(tenant)s::text, %(grant_id)s::text, %(actor)s::text, l.action, l.object) c
order by l.place
