-- The trial balance by currency and kind of account. It sums every account once: one row for each account and partition.
select a.currency, split_part(a.account_id, ':', 1) as kind, sum(a.debits) as debits, sum(a.credits) as credits,
       count(distinct a.account_id) as accounts
from account_balance a group by 1, 2 order by 1, 2
