-- The stored results of many identities at once (idempotency fast path, and the truth behind a lost reply).
-- Served by the primary key of idempotency; dead letters by dead_letter_request, for what was parked instead.
select w.n, i.request_hash, i.response, i.status, i.partition, i."offset"
from unnest(%(ns)s::int[], %(merchants)s::text[], %(keys)s::text[]) as w (n, merchant_id, key)
join idempotency i on i.merchant_id = w.merchant_id and i.key = w.key
