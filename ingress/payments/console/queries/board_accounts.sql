-- Clearing accounts that must come back to zero: suspense, payouts in transit, rounding. Primary key prefixes.
select a.account_id, a.currency, sum(a.debits) - sum(a.credits) as balance, sum(a.version) as entries
from unnest(array['recon_suspense:', 'payout_in_transit:', 'rounding:']) as p (prefix)
join account_balance a on a.account_id >= p.prefix and a.account_id < p.prefix || '~'
group by a.account_id, a.currency
having sum(a.debits) <> sum(a.credits) order by a.account_id limit %(limit)s
