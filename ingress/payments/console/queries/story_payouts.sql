-- The payouts of a merchant, of its account's story. Served by payout_of_merchant.
select p.id, p.amount, p.currency, p.state, p.destination, p.failure_reason, p.version, p.created_at, p.updated_at
from payout p where p.merchant_id = %(merchant)s order by p.created_at, p.id limit %(limit)s
