-- id: 17
-- title: Balances are in their account's currency, and accounts that only hold money never hold less than nothing
-- severity: critical
-- owner: ledger
-- source: postgres
-- merchant_available may be below zero: a dispute takes what a merchant may not have.
select account_id, currency, sum(debits) as debits, sum(credits) as credits, 'below its floor' as reason
from account_balance
where account_id ~ ('^(auth_hold|auth_obligation|refund_in_flight|dispute_receivable|merchant_dispute_hold|merchant_pending'
                    || '|merchant_reserved|merchant_payout_in_transit):')
group by account_id, currency
having case when account_id ~ '^(auth_hold|dispute_receivable):' then sum(debits) < sum(credits) else sum(credits) < sum(debits) end
union all
select account_id, currency, debits, credits, 'not the currency of its account'
from account_balance
where right(account_id, length(currency) + 1) <> ':' || currency
union all
select account_id, min(currency), sum(debits), sum(credits), 'several currencies'
from account_balance group by account_id having count(distinct currency) > 1
