-- GET /v1/payouts/{id}, many at once. Served by the primary key; the caller compares the merchant.
select {{read Payout p}}
from payout p
where id = any(%(ids)s::text[])
