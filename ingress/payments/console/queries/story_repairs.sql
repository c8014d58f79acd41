-- The repairs of cases. Served by repair_proposal_of_case.
select p.id, p.case_id, p.template, p.state, p.author, p.note, p.proposed_at, p.decided_by, p.decided_at, p.posted_at,
       p.txn_id::text as txn_id
from repair_proposal p where p.case_id = any(%(cases)s::text[]) order by p.proposed_at limit %(limit)s
