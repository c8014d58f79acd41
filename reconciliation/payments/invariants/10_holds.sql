-- id: 10
-- title: Holds on cards, refunds in flight and disputed money are what intents, refunds and disputes say, per currency
-- severity: critical
-- owner: payments
-- source: postgres
with expected as (
    select 'auth_hold:' || processor as account, currency, sum(amount_capturable) as amount
    from payment_intent group by 1, 2
    union all
    select 'refund_in_flight:' || a.processor, r.currency, sum(r.amount)
    from refund r join processor_attempt a using (intent_id, attempt)
    where r.state in ('pending', 'requires_action') group by 1, 2
    union all
    select 'dispute_receivable:' || processor, currency, sum(amount)
    from dispute where funds = 'withdrawn' and state <> 'lost' group by 1, 2
    union all
    select 'merchant_dispute_hold:' || merchant_id, currency, sum(amount)
    from dispute where funds = 'withdrawn' and state <> 'lost' group by 1, 2
),
held as (
    select left(account_id, -length(currency) - 1) as account, currency,
           sum(debit - credit) * case when account_id ~ '^(auth_hold|dispute_receivable):' then 1 else -1 end as amount
    from ledger_entry
    where account_id ~ '^(auth_hold|refund_in_flight|dispute_receivable|merchant_dispute_hold):'
    group by account_id, currency
)
select account, currency, x.amount as expected, h.amount as held
from expected x full join held h using (account, currency)
where coalesce(x.amount, 0) <> coalesce(h.amount, 0)
