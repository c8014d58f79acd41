-- id: parties
-- title: What was posted of a payment, or of a merchant's account, is on accounts of its own merchant and of processors that served it
-- severity: critical
-- owner: ledger
-- source: postgres
-- What reconciliation and repairs post belongs to neither (jr_): their own invariants say whose it is.
with line as (
    select t.txn_id, t.reference, t.kind, t.aggregate_key, e.account_id,
           split_part(e.account_id, ':', 1) as account, split_part(e.account_id, ':', 2) as party
    from ledger_txn t join ledger_entry e using (txn_id)
    where not starts_with(t.aggregate_key, 'jr_')
)
select l.txn_id, l.reference, l.kind, l.aggregate_key, l.account_id, coalesce(i.merchant_id, a.merchant_id) as expected
from line l
left join payment_intent i on i.id = l.aggregate_key
left join merchant_account a on a.id = l.aggregate_key
where (starts_with(l.account, 'merchant_') or l.account = 'auth_obligation')
  and l.party is distinct from coalesce(i.merchant_id, a.merchant_id)
union all
select l.txn_id, l.reference, l.kind, l.aggregate_key, l.account_id, null
from line l
where l.account in ('auth_hold', 'processor_receivable', 'processor_fee_expense', 'refund_in_flight', 'dispute_receivable',
                    'dispute_fee_expense', 'recon_suspense')
  and not exists (select from processor_attempt p where p.intent_id = l.aggregate_key and p.processor = l.party)
