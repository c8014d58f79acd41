-- The accounts of one kind, after a place. Primary key prefix.
select a.account_id, a.currency, sum(a.debits) as debits, sum(a.credits) as credits, sum(a.version) as entries
from account_balance a
where a.account_id > %(after)s and a.account_id >= %(kind)s || ':' and a.account_id < %(kind)s || ';'
  and a.currency = %(currency)s
group by a.account_id, a.currency order by a.account_id limit %(limit)s
