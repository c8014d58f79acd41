-- The cases about a payment, its parts, its attempts or its settlement lines. Served by repair_case_reference.
select c.id, c.kind, c.reference, c.processor, c.state, c.opened_at, c.resolved_at, c.resolved_by, c.note
from repair_case c where c.reference = any(%(references)s::text[]) order by c.opened_at limit %(limit)s
