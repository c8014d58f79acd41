-- id: payouts
-- title: Every payout is posted once for each step of its way, with its amount, and its state is where that way ended
-- severity: critical
-- owner: payments
-- source: postgres
with step as (
    select split_part(t.reference, ':', 1) as id, split_part(t.reference, ':', 2) as step, sum(e.credit) as amount,
           min(e.currency) as currency
    from ledger_txn t join ledger_entry e using (txn_id)
    where t.kind in ('payout', 'payout_paid', 'payout_failed', 'payout_canceled')
      and starts_with(t.aggregate_key, 'ma_')
    group by 1, 2
),
way as (
    select id, array_agg(step order by step) as steps, min(amount) as least, max(amount) as most,
           min(currency) as currency
    from step group by id
)
select id, p.state, p.amount, p.currency, w.steps, w.least, w.most, w.currency as posted_currency
from payout p full join way w using (id)
where p.id is null or w.id is null
   or w.least <> p.amount or w.most <> p.amount or w.currency <> p.currency
   or case p.state when 'pending' then w.steps <> '{created}'
                   when 'canceled' then w.steps <> '{canceled,created}'
                   when 'paid' then w.steps <> '{created,paid}' and w.steps <> '{canceled,created,paid}'
                   else w.steps not in ('{created,failed}', '{created,failed,paid}', '{canceled,created}',
                                        '{canceled,created,failed,paid}') end
