-- GET /v1/payouts/{id}, many at once. Served by the primary key; the caller compares the merchant.
select id, account_id, merchant_id, amount, currency, state, destination, failure_reason, metadata, version,
       (extract(epoch from created_at) * 1000000)::bigint as created_at,
       (extract(epoch from updated_at) * 1000000)::bigint as updated_at
from payout
where id = any(%(ids)s::text[])
