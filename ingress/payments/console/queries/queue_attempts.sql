-- Attempts that a person has to decide, longest waiting first, each with its case. Served by attempt_dispatch_review, then
-- by repair_case_reference.
select d.intent_id, d.attempt, d.operation_id, d.merchant_id, d.processor, d.kind, d.amount, d.currency, d.status, d.outcome,
       d.error_code, d.provider_ref, d.send_count, d.unknown_count, d.first_at, d.updated_at as at, null::timestamptz as next_at,
       c.id as case_id
from (select * from attempt_dispatch o where o.status = 'review' order by o.updated_at limit %(limit)s) d
left join lateral (select r.id from repair_case r where r.reference = d.operation_id and r.state <> 'resolved'
                   order by r.opened_at limit 1) c on true
order by d.updated_at
