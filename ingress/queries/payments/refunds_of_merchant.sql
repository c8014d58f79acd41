-- GET /v1/refunds: newest first, after a place in that order. Served by refund_of_merchant.
select {{read Refund r}}
from refund r
where merchant_id = %(merchant)s
  and created_at >= timestamptz 'epoch' + %(created_from)s::bigint * interval '1 microsecond'
  and (created_at, id) < (timestamptz 'epoch' + %(created_at)s::bigint * interval '1 microsecond', %(id)s::text)
order by merchant_id desc, created_at desc, id desc
limit %(limit)s
