-- GET /v1/refunds?payment_intent=: those of one payment, if it is the caller's. Served by refund_of_intent.
select {{read Refund r}}
from refund r
where intent_id = %(payment_intent)s and merchant_id = %(merchant)s
  and created_at >= timestamptz 'epoch' + %(created_from)s::bigint * interval '1 microsecond'
  and (created_at, id) < (timestamptz 'epoch' + %(created_at)s::bigint * interval '1 microsecond', %(id)s::text)
order by intent_id desc, created_at desc, id desc
limit %(limit)s
