-- GET /v1/cases/{id}/proposals, newest first. Served by repair_proposal_of_case.
select p.id, p.case_id, p.template, p.entries::text as entries, p.note, p.author, p.reverses,
       (select r.id from repair_proposal r where r.reverses = p.id and r.state in ('proposed', 'approved', 'posted')) as reversed_by,
       p.state, (case when p.state = 'proposed' then repair_preview(p.entries) else p.preview end)::text as preview,
       (extract(epoch from p.proposed_at) * 1000000)::bigint as proposed_at, p.decided_by,
       (extract(epoch from p.decided_at) * 1000000)::bigint as decided_at, p.decision_note, p.txn_id, p.refusal,
       (extract(epoch from p.posted_at) * 1000000)::bigint as posted_at
from repair_proposal p
where p.case_id = %(case)s
order by p.proposed_at desc, p.id desc
limit %(limit)s
