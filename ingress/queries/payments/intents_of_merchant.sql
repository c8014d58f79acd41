-- GET /v1/payment_intents: newest first, after a place in that order. Served by payment_intent_of_merchant.
select id, merchant_id, amount, currency, state, version, capture_method, payment_method, processor,
       amount_capturable, amount_received, amount_refunded, amount_disputed, last_payment_error,
       cancellation_reason, latest_attempt, metadata,
       (extract(epoch from created_at) * 1000000)::bigint as created_at,
       (extract(epoch from updated_at) * 1000000)::bigint as updated_at, amount_pending,
       next_action, (extract(epoch from authorized_until) * 1000000)::bigint as authorized_until
from payment_intent
where merchant_id = %(merchant)s
  and (created_at, id) < (timestamptz 'epoch' + %(created_at)s::bigint * interval '1 microsecond', %(id)s::text)
order by merchant_id desc, created_at desc, id desc
limit %(limit)s
