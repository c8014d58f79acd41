-- id: 19
-- title: What the processors' own books say was captured, authorized, voided and refunded is what the ledger says, both ways
-- severity: critical
-- owner: payments
-- source: comparison
-- Our side: every attempt with what was posted for it; reconciliation/payments/processor_book.py has the processors'.
select a.operation_id, a.status, a.intent_id, a.amount, a.currency, l.posted,
       a.updated_at > now() - %(events_grace_s)s * interval '1 second' as is_fresh, a.processor
from processor_attempt a
left join (
    select t.reference, case t.kind
               when 'capture' then sum(e.credit) filter (where starts_with(e.account_id, 'merchant_pending:'))
               when 'authorize' then sum(e.debit) filter (where starts_with(e.account_id, 'auth_hold:'))
               when 'refund_succeeded' then sum(e.credit) filter (where starts_with(e.account_id, 'processor_receivable:'))
               else sum(e.credit) filter (where starts_with(e.account_id, 'auth_hold:')) end as posted
    from ledger_txn t join ledger_entry e using (txn_id)
    group by t.reference, t.kind
) l on l.reference = a.operation_id || case a.status when 'captured' then ':capture' when 'authorized' then ':authorize'
                                                     when 'voided' then ':void' when 'refunded' then ':refunded' else '' end
