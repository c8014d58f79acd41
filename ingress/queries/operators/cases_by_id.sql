-- GET /v1/cases/{id}. Served by the primary key.
select id, kind, reference, processor, state, evidence::text as evidence,
       (extract(epoch from opened_at) * 1000000)::bigint as opened_at,
       (extract(epoch from resolved_at) * 1000000)::bigint as resolved_at, resolved_by, note
from repair_case
where id = %(id)s
