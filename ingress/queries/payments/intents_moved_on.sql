-- The long poll of GET /v1/payment_intents/{id}: which of these are not processing any more. Primary key.
select id from payment_intent where id = any(%(ids)s::text[]) and state <> 'processing'
