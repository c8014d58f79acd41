-- GET /v1/disputes: newest first, after a place in that order. Served by dispute_of_merchant.
select {{shown Dispute d}}
from dispute d
where merchant_id = %(merchant)s
  and (created_at, id) < (timestamptz 'epoch' + %(created_at)s::bigint * interval '1 microsecond', %(id)s::text)
order by merchant_id desc, created_at desc, id desc
limit %(limit)s
