-- id: 15
-- title: Each settlement line is matched once, foots, and stands in a batch that is what was paid out and received
-- severity: critical
-- owner: reconciliation
-- source: postgres
-- Whatever a report says that is not so is a discrepancy; here is what would be neither sound nor found.
select processor, matched as subject, 'settled by more than one line' as reason, count(*) as amount
from settlement_line where finding in ('matched', 'short', 'over') and matched is not null
group by processor, matched having count(*) > 1
union all
select l.processor, l.line_id, 'posted, but its attempt names another line', l.gross
from settlement_line l
left join processor_attempt a on a.intent_id = l.intent_id and a.attempt = l.attempt
where l.finding in ('matched', 'short', 'over') and l.posting = 'decided'
  and (a.processor, a.operation_id, a.settled_line) is distinct from (l.processor, l.matched, l.line_id)
union all
select a.processor, a.operation_id, 'settled by a line that no report has', a.amount
from processor_attempt a
where a.settled_line is not null
  and not exists (select 1 from settlement_line l where l.processor = a.processor and l.line_id = a.settled_line)
union all
-- gross less fee is net
select l.processor, l.line_id, 'does not foot', l.gross - l.fee - l.net
from settlement_line l
where l.currency = l.net_currency and l.gross - l.fee <> l.net
  and not exists (select 1 from settlement_discrepancy d where d.processor = l.processor and d.line_id = l.line_id)
union all
-- The lines of a batch are its payout. A batch without a name is a report, where every line is under the report that first
-- brought it: after one that was cut off, what is left of it comes under another name.
select b.processor, b.batch, 'the payout is not the sum of its batch', b.lines_net + b.paid
from (
    select processor, coalesce('batch ' || batch, 'report ' || report_id) as batch, net_currency,
           coalesce(sum(net) filter (where type not like 'payout%%'), 0) as lines_net,
           coalesce(sum(-posted_gross) filter (where type = 'payout' and class = 'announced'), 0) as paid
    from settlement_line where part_of is null and not starts_with(processor, 'bank:')
    group by 1, 2, 3
    having count(*) filter (where type = 'payout' and class = 'announced') > 0
) b
where b.lines_net + b.paid <> 0
  -- more lines of a payout that had been announced as the sum of fewer: told, as a changed line
  and not exists (select from settlement_discrepancy d
                  where d.processor = b.processor and d.class = 'changed_line'
                    and (d.subject = substr(b.batch, length('batch ') + 1) || ':' || b.net_currency
                         or exists (select from settlement_line p
                                    where p.processor = b.processor and p.line_id = d.subject and p.type = 'payout'
                                      and p.batch = substr(b.batch, length('batch ') + 1) and p.net_currency = b.net_currency)))
  -- that report was cut off before its payout, and this one brought what was left
  and not exists (
      select from settlement_line l
      join settlement_discrepancy d on d.processor = l.processor and d.subject = l.report_id and d.class = 'truncated_report'
      where starts_with(b.batch, 'report ') and l.processor = b.processor and l.net_currency = b.net_currency
        and l.batch is null and l.part_of is null
      group by l.report_id
      having sum(l.net) + b.lines_net + b.paid = 0 and count(*) filter (where l.type = 'payout') = 0)
union all
-- A payout that the bank shows is the payout that was announced, once; what it took back is that payout, once.
select e.processor, e.line_id, 'the bank entry is not the payout that it was matched to',
       e.net - case e.type when 'bank_return' then -1 else 1 end * coalesce(p.posted_gross, 0)
from settlement_line e
left join settlement_line p on p.processor = e.counterpart and p.line_id = e.matched
where e.class = 'matched' and starts_with(e.processor, 'bank:') and not starts_with(e.counterpart, 'merchant:')
  and (p.class, p.posted_gross) is distinct from ('announced', case e.type when 'bank_return' then -e.net else e.net end)
union all
select counterpart, matched, 'received or taken back more than once', count(*)
from settlement_line where class = 'matched' and starts_with(processor, 'bank:') and not starts_with(counterpart, 'merchant:')
group by counterpart, matched, type = 'bank_return' having count(*) > 1
union all
-- Owners hear only of lines in a list.
select l.processor, l.line_id, 'due, and in no list', l.gross
from settlement_line l
where l.posting = 'due' and (l.processor, l.line_id) not in (select d.processor, unnest(d.lines) from settlement_due d)
union all
-- Its money moved outside, and the ledger does not have it: an owner refused what the line made due, and nobody posted or
-- settled it since.
select l.processor, l.line_id, 'its ledger transaction was refused', coalesce(l.posted_gross, l.gross)
from settlement_line l
where l.posting = 'refused' and l.type in ('exchange', 'other', 'payout')
  and not exists (select from ledger_txn t
                  where t.reference = case l.type when 'exchange' then 'exchange:' when 'other' then 'unknown_line:' else 'payout:' end
                                      || l.processor || ':' || l.line_id)
  and not exists (select from settlement_discrepancy d
                  where d.processor = l.processor and d.subject = l.line_id and d.class = 'posting_refused'
                    and d.state = 'resolved')
