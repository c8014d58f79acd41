-- id: 2
-- title: The trial balance is zero in every currency
-- severity: critical
-- owner: ledger
-- source: postgres
select currency, sum(debit) as debits, sum(credit) as credits
from ledger_entry
group by currency
having sum(debit) <> sum(credit)
