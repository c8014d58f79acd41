-- Attempts whose outcome is unknown and asked for again, longest unknown first. Served by attempt_dispatch_due, which
-- holds what is open only.
select d.intent_id, d.attempt, d.operation_id, d.merchant_id, d.processor, d.kind, d.amount, d.currency, d.status, d.outcome,
       d.error_code, d.provider_ref, d.send_count, d.unknown_count, d.first_at, d.updated_at as at, d.next_at,
       null::text as case_id
from (select * from attempt_dispatch o where o.status in ('waiting', 'leased') and o.unknown_count > 0 limit %(counted)s) d
order by d.first_at limit %(limit)s
