-- GET /v1/refunds/{id}, many at once. Served by the primary key; the caller compares the merchant.
select id, intent_id, merchant_id, attempt, amount, currency, state, reason, failure_reason, from_pending, metadata, version,
       (extract(epoch from created_at) * 1000000)::bigint as created_at,
       (extract(epoch from updated_at) * 1000000)::bigint as updated_at, pending_reason
from refund
where id = any(%(ids)s::text[])
