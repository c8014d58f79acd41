-- GET /v1/payouts: newest first, after a place in that order. Served by payout_of_merchant.
select id, account_id, merchant_id, amount, currency, state, destination, failure_reason, metadata, version,
       (extract(epoch from created_at) * 1000000)::bigint as created_at,
       (extract(epoch from updated_at) * 1000000)::bigint as updated_at
from payout
where merchant_id = %(merchant)s
  and (created_at, id) < (timestamptz 'epoch' + %(created_at)s::bigint * interval '1 microsecond', %(id)s::text)
order by merchant_id desc, created_at desc, id desc
limit %(limit)s
