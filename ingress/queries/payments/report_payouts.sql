-- GET /v1/reports/payouts: those that were made in the time, oldest first, as they are now. Index payout_of_merchant.
select (extract(epoch from created_at) * 1000000)::bigint as created_at, id, amount, currency, state, destination,
       failure_reason, (extract(epoch from updated_at) * 1000000)::bigint as updated_at
from payout
where merchant_id = %(merchant)s
  and created_at >= timestamptz 'epoch' + %(from)s::bigint * interval '1 microsecond'
  and created_at < timestamptz 'epoch' + %(to)s::bigint * interval '1 microsecond'
  and (created_at, id) > (timestamptz 'epoch' + %(after_at)s::bigint * interval '1 microsecond', %(after_id)s::text)
  and (%(currency)s::text is null or currency = %(currency)s)
order by merchant_id, created_at, id
limit %(limit)s
