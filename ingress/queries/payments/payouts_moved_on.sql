-- The long poll of GET /v1/payouts/{id}: which of these are not pending any more. Primary key.
select id from payout where id = any(%(ids)s::text[]) and state <> 'pending'
