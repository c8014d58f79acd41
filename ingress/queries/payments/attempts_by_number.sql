-- GET /v1/payment_intents/{id}?expand[]=latest_attempt, after the payment was found to be the caller's. Primary key.
select attempt, kind, status, processor, amount, currency, provider_ref, error_code,
       (extract(epoch from created_at) * 1000000)::bigint as created_at,
       (extract(epoch from updated_at) * 1000000)::bigint as updated_at
from processor_attempt
where intent_id = %(intent_id)s and attempt = %(attempt)s
