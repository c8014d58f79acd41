-- id: 4
-- title: Every account balance is the sum of its entries
-- severity: critical
-- owner: ledger
-- source: postgres
select account_id, partition, b.debits as balance_debits, e.debits as entry_debits,
       b.credits as balance_credits, e.credits as entry_credits, b.version, e.entries
from account_balance b
full join (
    select e.account_id, t.partition, e.currency, sum(e.debit) as debits, sum(e.credit) as credits, count(*) as entries
    from ledger_entry e join ledger_txn t using (txn_id)
    group by e.account_id, t.partition, e.currency
) e using (account_id, partition)
where b.debits is distinct from e.debits or b.credits is distinct from e.credits
   or b.version is distinct from e.entries or b.currency is distinct from e.currency
