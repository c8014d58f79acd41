-- id: 7
-- title: The amounts and the state of every intent agree with the ledger
-- severity: critical
-- owner: payments
-- source: postgres
with posted as (
    select t.aggregate_key as id,
           coalesce(sum(e.credit) filter (where t.kind = 'capture' and starts_with(e.account_id, 'merchant_pending:')), 0) as received,
           coalesce(sum(e.debit - e.credit) filter (where starts_with(e.account_id, 'auth_hold:')), 0) as capturable
    from ledger_txn t join ledger_entry e using (txn_id)
    group by t.aggregate_key
)
select id, i.state, i.amount_received, p.received, i.amount_capturable, p.capturable
from payment_intent i full join posted p using (id)
where i.id is null
   or i.amount_received <> coalesce(p.received, 0)
   or i.amount_capturable <> coalesce(p.capturable, 0)
   or (i.state = 'succeeded' and i.amount_received = 0)
   or (i.state = 'canceled' and i.amount_received > i.amount_refunded)
   or (i.state = 'requires_capture' and i.amount_capturable = 0)
   or (i.state in ('succeeded', 'canceled') and i.amount_capturable > 0)
