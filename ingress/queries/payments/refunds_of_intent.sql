-- GET /v1/refunds?payment_intent=: those of one payment, if it is the caller's. Served by refund_of_intent.
select id, intent_id, merchant_id, attempt, amount, currency, state, reason, failure_reason, from_pending, metadata, version,
       (extract(epoch from created_at) * 1000000)::bigint as created_at,
       (extract(epoch from updated_at) * 1000000)::bigint as updated_at, pending_reason
from refund
where intent_id = %(payment_intent)s and merchant_id = %(merchant)s
  and (created_at, id) < (timestamptz 'epoch' + %(created_at)s::bigint * interval '1 microsecond', %(id)s::text)
order by intent_id desc, created_at desc, id desc
limit %(limit)s
