-- id: 10
-- title: Holds on cards are the sum of what is capturable, per currency and processor
-- severity: critical
-- owner: payments
-- source: postgres
select processor, currency, i.capturable, h.held
from (select processor, currency, sum(amount_capturable) as capturable from payment_intent group by processor, currency) i
full join (
    select split_part(account_id, ':', 2) as processor, currency, sum(debit - credit) as held
    from ledger_entry where starts_with(account_id, 'auth_hold:') group by split_part(account_id, ':', 2), currency
) h using (processor, currency)
where coalesce(i.capturable, 0) <> coalesce(h.held, 0)
