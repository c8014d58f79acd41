-- What the HTTP benchmark reads, as the reader's role.

-- name: decided
-- The decided commands of one merchant by key, with their place in Kafka and the owner's time. Primary key.
select key, partition, "offset", (extract(epoch from created_at) * 1000000)::bigint
from idempotency
where merchant_id = %(merchant)s and key = any(%(keys)s);

-- name: open_attempts
-- Payments that are confirmed and not at their end.
select count(*) from payment_intent where state = 'processing';
