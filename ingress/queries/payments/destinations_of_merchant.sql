-- GET /v1/payout_destinations: those that the merchant ever registered, newest first, PAYOUT_DESTINATIONS_MAX at most; one where
-- it is named. Served by payout_destination_of_merchant.
select {{read PayoutDestination d}}, d.account_number
from payout_destination d
where d.merchant_id = %(merchant)s and (%(id)s::text is null or d.id = %(id)s)
order by d.created_at desc, d.id desc
