-- GET /v1/disputes/{id}, many at once. Served by the primary key; the caller compares the merchant.
select id, intent_id, merchant_id, processor, provider_ref, amount, currency, fee, reason, state, funds, version,
       (extract(epoch from created_at) * 1000000)::bigint as created_at,
       (extract(epoch from updated_at) * 1000000)::bigint as updated_at,
       null as evidence, evidence_state  -- what the merchant says is for its bank alone
from dispute
where id = any(%(ids)s::text[])
