-- GET /v1/cases/{id}/closings, newest first; one of them when its id is given. Served by
-- case_closing_of_case.
select c.id, c.case_id, c.reason, c.note, c.author, c.four_eyes, c.state,
       (extract(epoch from c.proposed_at) * 1000000)::bigint as proposed_at, c.decided_by,
       (extract(epoch from c.decided_at) * 1000000)::bigint as decided_at, c.decision_note, c.reopened_by,
       (extract(epoch from c.reopened_at) * 1000000)::bigint as reopened_at, c.reopen_note
from case_closing c
where c.case_id = %(case)s and (%(id)s::text is null or c.id = %(id)s::text)
order by c.proposed_at desc, c.id desc
limit %(limit)s
