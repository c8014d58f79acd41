-- Attempts that a person has to decide, longest waiting first. Served by attempt_dispatch_review.
select d.intent_id, d.attempt, d.operation_id, d.merchant_id, d.processor, d.kind, d.amount, d.currency, d.status, d.outcome,
       d.error_code, d.provider_ref, d.send_count, d.unknown_count, d.first_at, d.updated_at as at, null::timestamptz as next_at
from attempt_dispatch d where d.status = 'review' order by d.updated_at limit %(limit)s
