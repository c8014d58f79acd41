-- id: disputes
-- title: The ledger moved for every dispute what its funds and its end say, between processor and merchant
-- severity: critical
-- owner: payments
-- source: postgres
-- By account, over all steps of its way in whatever order they were told. Withdrawn: the merchant is without the money,
-- which is claimed and held until a loss clears that. Reinstated: it has the money again, after a loss too. The fee stays.
with expected as (
    select d.id, d.intent_id, a.account || ':' || d.currency as account_id, d.currency, a.amount
    from dispute d
    cross join lateral (values
        ('merchant_available:' || d.merchant_id, case d.funds when 'withdrawn' then d.amount else 0 end),
        ('dispute_receivable:' || d.processor, case when d.funds = 'withdrawn' and d.state <> 'lost' then d.amount else 0 end),
        ('merchant_dispute_hold:' || d.merchant_id, case when d.funds = 'withdrawn' and d.state <> 'lost' then -d.amount else 0 end),
        ('dispute_fee_expense:' || d.processor, case d.funds when 'none' then 0 else d.fee end),
        ('processor_receivable:' || d.processor,
         case d.funds when 'none' then 0 when 'withdrawn' then -d.amount - d.fee else -d.fee end)
    ) a (account, amount)
),
posted as (
    select split_part(t.reference, ':', 1) as id, t.aggregate_key as intent_id, e.account_id, e.currency,
           sum(e.debit - e.credit) as amount
    from ledger_txn t join ledger_entry e using (txn_id)
    where t.kind in ('dispute_withdrawn', 'dispute_reinstated', 'dispute_lost', 'dispute_appealed')
    group by 1, 2, 3, 4
)
select id, intent_id, account_id, x.amount as expected, p.amount as posted
from expected x full join posted p using (id, intent_id, account_id, currency)
where coalesce(x.amount, 0) <> coalesce(p.amount, 0)
