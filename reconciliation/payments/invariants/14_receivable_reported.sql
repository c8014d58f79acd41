-- id: 14
-- title: What a processor owes us is what its reports have accounted for and what no report has named yet
-- severity: critical
-- owner: reconciliation
-- source: postgres
-- By processor and currency: closing balance of the receivable = sum of the lines that were posted + movements without a
-- line. The balance and the movements come from the ledger, the lines from the reports; what a line posts is decided by
-- the owner in one commit, so its own word (settled_line, a reference) says whether the line is accounted for.
with movement as (
    select split_part(e.account_id, ':', 2) as processor, e.currency, sum(e.debit - e.credit) as amount
    from ledger_entry e join ledger_txn t using (txn_id)
    left join processor_attempt a on a.intent_id = t.aggregate_key and a.settled_line is not null
        and ((t.kind = 'capture' and t.reference = a.operation_id || ':capture')
             or (t.kind = 'refund_succeeded' and t.reference = a.operation_id || ':refunded'))
    where starts_with(e.account_id, 'processor_receivable:') and a.operation_id is null
        and t.kind not in ('settled', 'settlement_short', 'settlement_over', 'settlement_duplicate', 'settlement_fee',
                           'settlement_unknown', 'payout_announced', 'payout_returned')
    group by 1, 2
),
line as (
    -- the line that settled a movement: its own amount less its own fee
    select l.processor, l.currency, coalesce(l.posted_gross, l.gross) - coalesce(l.posted_fee, l.fee) as amount
    from settlement_line l
    join processor_attempt a on a.intent_id = l.intent_id and a.attempt = l.attempt and a.processor = l.processor
        and a.settled_line = l.line_id
    where l.finding in ('matched', 'short', 'over')
    union all
    -- every further line of the same movement, the same
    select l.processor, l.currency, case when coalesce(l.posted_gross, l.gross) > 0 then 1 else -1 end * l.posted_difference
           - coalesce(l.posted_fee, l.fee)
    from settlement_line l
    join ledger_txn t on t.reference = l.processor || ':' || l.line_id || ':duplicate'
    where l.finding = 'duplicate'
    union all
    select l.processor, l.net_currency, l.posted_gross
    from settlement_line l join ledger_txn t on t.reference = 'unknown_line:' || l.processor || ':' || l.line_id
    where l.type = 'other' and l.posted_gross is not null
    union all
    select l.processor, l.net_currency, case l.type when 'payout' then -l.posted_gross else l.posted_gross end
    from settlement_line l
    join ledger_txn t on t.reference = case l.type when 'payout' then 'payout:' || l.processor || ':' || l.line_id
                                                   else 'payout_returned:' || l.processor || ':' || l.matched end
    where l.type in ('payout', 'payout_reversal') and l.posted_gross is not null
),
reported as (
    select processor, currency, sum(amount) as amount from line group by 1, 2
),
owed as (
    select split_part(account_id, ':', 2) as processor, currency, sum(balance) as amount
    from account_total where starts_with(account_id, 'processor_receivable:')
    group by 1, 2
)
select processor, currency, owed.amount as closing, reported.amount as reported, movement.amount as unmatched,
       coalesce(owed.amount, 0) - coalesce(reported.amount, 0) - coalesce(movement.amount, 0) as gap,
       null as operation_id
from owed full join reported using (processor, currency) full join movement using (processor, currency)
where coalesce(owed.amount, 0) <> coalesce(reported.amount, 0) + coalesce(movement.amount, 0)
union all
-- Nothing stays unmatched for longer than the horizon unless somebody knows: its processor has reported younger captures.
-- Of a processor whose reports somebody gives, only what lies between those that they told of (as the finding ``missing``):
-- what is older may stand in a report that nobody gave.
select a.processor, a.currency, null, null, a.amount, a.amount, a.operation_id
from processor_attempt a
join (select processor, max(youngest_at) as youngest,
             case when bool_or(is_complete_history) then '-infinity'::timestamptz else min(oldest_at) end as oldest
      from settlement_report where state <> 'rejected' group by 1) r on r.processor = a.processor
where a.status = 'captured' and a.settled_line is null and a.updated_at <= r.youngest and a.created_at >= r.oldest
  and a.updated_at < now() - %(horizon_days)s * interval '1 day'
  and not exists (select 1 from settlement_line l where l.matched = a.operation_id)
  and not exists (select 1 from settlement_discrepancy d where d.matched = a.operation_id)
