-- id: 1
-- title: Every ledger transaction balances in every currency
-- severity: critical
-- owner: ledger
-- source: postgres
select txn_id, currency, sum(debit) as debits, sum(credit) as credits
from ledger_entry
group by txn_id, currency
having sum(debit) <> sum(credit)
