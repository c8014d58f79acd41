-- What the ledger owes a merchant: accounts of known kinds, by primary key prefix.
select a.account_id, a.currency, sum(a.debits) as debits, sum(a.credits) as credits
from unnest(%(prefixes)s::text[]) as p (prefix)
join account_balance a on a.account_id >= p.prefix and a.account_id < p.prefix || '~'
group by a.account_id, a.currency order by a.account_id limit %(limit)s
