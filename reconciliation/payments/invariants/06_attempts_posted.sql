-- id: 6
-- title: Successful attempts and their ledger transactions are a bijection with equal amounts
-- severity: critical
-- owner: payments
-- source: postgres
-- A refund that failed after it had succeeded has both postings, which cancel one another: it counts as not refunded.
-- A void releases what is left of its hold then: less than was asked for, where the hold ended or a late capture used it.
with expected as (
    select operation_id || case status when 'captured' then ':capture' when 'authorized' then ':authorize'
                                       when 'refunded' then ':refunded' else ':void' end as reference,
           intent_id, amount, currency, status, created_at
    from processor_attempt where status in ('captured', 'authorized', 'voided', 'refunded')
),
posted as (
    select t.reference, t.kind, t.aggregate_key, e.currency,
           case t.kind
               when 'capture' then sum(e.credit) filter (where starts_with(e.account_id, 'merchant_pending:'))
               when 'authorize' then sum(e.debit) filter (where starts_with(e.account_id, 'auth_hold:'))
               when 'refund_succeeded' then sum(e.credit) filter (where starts_with(e.account_id, 'processor_receivable:'))
               else sum(e.credit) filter (where starts_with(e.account_id, 'auth_hold:'))
           end as amount
    from ledger_txn t join ledger_entry e using (txn_id)
    where t.kind in ('capture', 'authorize', 'void', 'refund_succeeded')
      and not (t.kind = 'refund_succeeded' and exists (
          select 1 from ledger_txn back
          where back.reference = regexp_replace(t.reference, ':refunded$', ':failed_later')))
    group by t.reference, t.kind, t.aggregate_key, e.currency
)
select reference, x.intent_id, x.status, x.amount as attempt_amount, x.currency as attempt_currency,
       p.aggregate_key, p.amount as posted_amount, p.currency as posted_currency
from expected x full join posted p using (reference)
where (x.amount is distinct from p.amount or x.currency is distinct from p.currency
       or x.intent_id is distinct from p.aggregate_key)
  and not (x.status = 'voided' and coalesce(p.amount, 0) < x.amount
           and coalesce((p.currency, p.aggregate_key) = (x.currency, x.intent_id), true)
           and exists (select 1 from ledger_txn o where o.aggregate_key = x.intent_id
                       and (o.kind = 'expire' or (o.kind = 'capture' and o.recorded_at > x.created_at))))
