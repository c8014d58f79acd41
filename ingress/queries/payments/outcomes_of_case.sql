-- GET /v1/cases/{id}/outcomes, newest first; one of them when its id is given. Served by attempt_outcome_of_case.
select o.id, o.case_id, o.operation_id, o.intent_id as payment_intent, o.attempt, o.processor, o.fact::text as fact, o.note,
       o.author, o.state, (extract(epoch from o.proposed_at) * 1000000)::bigint as proposed_at, o.decided_by,
       (extract(epoch from o.decided_at) * 1000000)::bigint as decided_at, o.decision_note, o.refusal,
       (extract(epoch from o.recorded_at) * 1000000)::bigint as recorded_at
from attempt_outcome_proposal o
where o.case_id = %(case)s and (%(id)s::text is null or o.id = %(id)s::text)
order by o.proposed_at desc, o.id desc
limit %(limit)s
