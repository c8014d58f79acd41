-- The attempts of a payment, and what the worker knows of each while it keeps that. Primary keys.
select a.attempt, a.kind, a.status, a.operation_id, a.processor, a.amount, a.currency, a.payment_method, a.parent_ref,
       a.provider_ref, a.error_code, a.created_at, a.updated_at, a.settled_line, a.route,
       d.status as dispatch, d.send_count, d.unknown_count, d.in_doubt, d.next_at
from processor_attempt a left join attempt_dispatch d on d.operation_id = a.operation_id
where a.intent_id = %(id)s order by a.attempt limit %(limit)s
