-- id: evidence
-- title: What reconciliation told of payouts to merchants, received and exchanged is what a line of a bank or a report says
-- severity: critical
-- owner: reconciliation
-- source: postgres
-- Its other postings are sums of what processors owe: invariant 14. A line that is due may be posted already.
with line as (
    select l.processor, l.line_id, l.posting, l.currency, l.net_currency, l.counterpart,
           coalesce(l.posted_gross, l.gross) as gross, l.net, coalesce(l.posted_fee, l.fee) as fee,
           case when l.type = 'exchange' then 'exchange:' || l.processor || ':' || l.line_id
                else case l.type when 'bank_return' then 'payout_taken_back:' else 'payout_received:' end
                     || l.counterpart || ':' || l.matched end as reference
    from settlement_line l
    where l.posting in ('due', 'decided')
      and (l.type = 'exchange' or (starts_with(l.processor, 'bank:') and l.class = 'matched'
                                   and not starts_with(l.counterpart, 'merchant:')))
),
expected as (
    select reference, account_id, sum(amount) as amount, bool_and(posting = 'decided') as is_decided
    from line cross join lateral (
        select * from (values
            ('fx_clearing:' || currency, gross),
            ('processor_receivable:' || processor || ':' || currency, -gross),
            ('processor_receivable:' || processor || ':' || net_currency, net),
            ('fx_clearing:' || net_currency, -net - fee),
            ('processor_fee_expense:' || processor || ':' || net_currency, fee)
        ) a (account_id, amount) where starts_with(reference, 'exchange:')
        union all
        select * from (values
            ('cash:' || substr(processor, 6) || ':' || currency, gross),
            ('payout_in_transit:' || counterpart || ':' || currency, -gross)
        ) a (account_id, amount) where not starts_with(reference, 'exchange:')
    ) m
    group by reference, account_id
),
posted as (
    select t.reference, e.account_id, sum(e.debit - e.credit) as amount
    from ledger_txn t join ledger_entry e using (txn_id)
    where t.kind in ('settlement_exchanged', 'payout_received', 'payout_taken_back')
    group by t.reference, e.account_id
)
select reference as subject, account_id, x.amount as told, p.amount as moved, 'not what the line says' as reason
from expected x full join posted p using (reference, account_id)
where coalesce(x.amount, 0) <> coalesce(p.amount, 0)
  and (x.is_decided is not false or exists (select from ledger_txn t where t.reference = x.reference))
union all
-- An outcome of a payout has its entry: a debit of its amount that it left, a credit that it came back.
select i.key, i.aggregate_key, null, p.amount, 'no entry of a bank says so'
from idempotency i left join payout p on p.id = split_part(i.key, ':', 1)
where i.operation = 'record_payout_outcome' and i.merchant_id = 'ledger:reconciliation' and i.status = 'committed'
  and not exists (
      select from settlement_line l
      where l.matched = p.id and l.counterpart = 'merchant:' || p.merchant_id and l.class = 'matched'
        and (l.gross, l.currency)
            = (case split_part(i.key, ':', 2) when 'paid' then -p.amount else p.amount end, p.currency))
