-- id: payouts_in_transit
-- title: What is on its way to merchants' banks is what their pending payouts say, per currency
-- severity: critical
-- owner: payments
-- source: postgres
with expected as (
    select 'merchant_payout_in_transit:' || merchant_id || ':' || currency as account_id, sum(amount) as amount
    from payout where state = 'pending' group by 1
),
held as (
    select account_id, sum(credit - debit) as amount
    from ledger_entry where starts_with(account_id, 'merchant_payout_in_transit:') group by account_id
)
select account_id, x.amount as expected, h.amount as held
from expected x full join held h using (account_id)
where coalesce(x.amount, 0) <> coalesce(h.amount, 0)
