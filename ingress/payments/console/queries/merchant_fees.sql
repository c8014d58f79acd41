-- What the platform took of a merchant since a time, less what refunds gave back, by currency: of the transactions on its
-- accounts, bounded, newest first. Served by ledger_entry_of_merchant, then the primary key of ledger_entry.
select x.currency, sum(f.credit - f.debit) as fees, count(distinct f.txn_id) as movements
from (select e.txn_id, e.currency
      from unnest(%(prefixes)s::text[]) as p (prefix)
      cross join lateral (select distinct b.account_id from account_balance b
                          where b.account_id >= p.prefix and b.account_id < p.prefix || '~') a
      join ledger_entry e on e.account_id = a.account_id and e.account_id >= 'merchant_' and e.account_id < 'merchant`'
      where e.effective_at >= now() - make_interval(days => %(days)s)
      group by e.txn_id, e.currency, e.effective_at order by e.effective_at desc limit %(counted)s) x
join ledger_entry f on f.txn_id = x.txn_id and f.account_id = 'platform_fee_income:' || x.currency
group by x.currency order by x.currency
