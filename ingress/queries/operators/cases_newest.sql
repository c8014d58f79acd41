-- GET /v1/cases: newest first, after a place in that order, of one state or kind when it is asked for. Served by
-- repair_case_age; the filters look at what it passes, of which there is no more than people can work on.
select id, kind, reference, processor, state, evidence::text as evidence,
       (extract(epoch from opened_at) * 1000000)::bigint as opened_at,
       (extract(epoch from resolved_at) * 1000000)::bigint as resolved_at, resolved_by, note
from repair_case
where (opened_at, id) < (timestamptz 'epoch' + %(created_at)s::bigint * interval '1 microsecond', %(id)s::text)
  and (%(state)s::text is null or state = %(state)s::text)
  and (%(kind)s::text is null or kind = %(kind)s::text)
order by opened_at desc, id desc
limit %(limit)s
