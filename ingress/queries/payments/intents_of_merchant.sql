-- GET /v1/payment_intents: newest first, after a place in that order. Served by payment_intent_of_merchant.
select {{read PaymentIntent i}}
from payment_intent i
where merchant_id = %(merchant)s {{listed PaymentIntent i}}
  and created_at >= timestamptz 'epoch' + %(created_from)s::bigint * interval '1 microsecond'
  and (created_at, id) < (timestamptz 'epoch' + %(created_at)s::bigint * interval '1 microsecond', %(id)s::text)
order by merchant_id desc, created_at desc, id desc
limit %(limit)s
