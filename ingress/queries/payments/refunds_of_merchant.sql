-- GET /v1/refunds: newest first, after a place in that order. Served by refund_of_merchant.
select id, intent_id, merchant_id, attempt, amount, currency, state, reason, failure_reason, from_pending, metadata, version,
       (extract(epoch from created_at) * 1000000)::bigint as created_at,
       (extract(epoch from updated_at) * 1000000)::bigint as updated_at, pending_reason
from refund
where merchant_id = %(merchant)s
  and (created_at, id) < (timestamptz 'epoch' + %(created_at)s::bigint * interval '1 microsecond', %(id)s::text)
order by merchant_id desc, created_at desc, id desc
limit %(limit)s
