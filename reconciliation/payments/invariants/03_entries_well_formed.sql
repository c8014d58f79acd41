-- id: 3
-- title: Every entry has one side, its account's currency and a transaction, and every transaction two entries
-- severity: critical
-- owner: ledger
-- source: postgres
select coalesce(t.txn_id, e.txn_id) as txn_id, e.line, e.account_id, e.debit, e.credit, e.currency,
       case
           when e.txn_id is null then 'a transaction without entries'
           when t.txn_id is null then 'an entry without a transaction'
           when e.lines < 2 then 'fewer than two entries'
           when (e.debit > 0) = (e.credit > 0) or e.debit < 0 or e.credit < 0 then 'not one-sided'
           when right(e.account_id, length(e.currency) + 1) <> ':' || e.currency then 'not the currency of its account'
           else 'another effective time than its transaction'
       end as reason
from ledger_txn t
full join (select *, count(*) over (partition by txn_id) as lines from ledger_entry) e using (txn_id)
where t.txn_id is null or e.txn_id is null or e.lines < 2
   or (e.debit > 0) = (e.credit > 0) or e.debit < 0 or e.credit < 0
   or right(e.account_id, length(e.currency) + 1) <> ':' || e.currency
   or e.effective_at <> t.effective_at
