-- GET /v1/disputes?payment_intent=: those of one payment, if it is the caller's. Served by dispute_of_intent.
select {{shown Dispute d}}
from dispute d
where intent_id = %(payment_intent)s and merchant_id = %(merchant)s
  and (created_at, id) < (timestamptz 'epoch' + %(created_at)s::bigint * interval '1 microsecond', %(id)s::text)
order by intent_id desc, created_at desc, id desc
limit %(limit)s
