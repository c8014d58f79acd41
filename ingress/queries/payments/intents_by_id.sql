-- GET /v1/payment_intents/{id}, many at once. Served by the primary key; the caller compares the merchant.
select {{read PaymentIntent i}}
from payment_intent i
where id = any(%(ids)s::text[])
