-- Outcomes that persons took over. Served by attempt_outcome_of_case.
select o.id, o.case_id, o.operation_id, o.fact ->> 'status' as status, (o.fact ->> 'amount')::bigint as amount,
       o.fact ->> 'currency' as currency, o.note, o.author, o.state, o.proposed_at, o.decided_by, o.decided_at,
       o.decision_note, o.refusal, o.recorded_at
from attempt_outcome_proposal o where o.case_id = any(%(cases)s::text[]) order by o.proposed_at limit %(limit)s
