-- GET /v1/balance: what the merchant's accounts hold, in every currency in which it ever had one; with a time, what they
-- held then: the present less what was posted later, all in one snapshot. Accounts are found in the range of their name
-- (primary key of account_balance) and kept only when the name is exactly theirs: a currency after the merchant, nothing
-- between. Later lines: ledger_entry_of_merchant.
select w.kind, b.currency, b.balance - coalesce(later.moved, 0) as balance
from unnest(%(kinds)s::text[], %(prefixes)s::text[]) as w (kind, prefix)
cross join lateral (
    select a.account_id, a.currency, sum(a.credits - a.debits) as balance
    from account_balance a
    where a.account_id >= w.prefix and a.account_id < left(w.prefix, -1) || ';'  -- ';' comes after ':'
      and a.account_id = w.prefix || a.currency
    group by a.account_id, a.currency
) b
cross join lateral (
    select sum(e.credit) - sum(e.debit) as moved
    from merchant_entry e
    where e.account_id = b.account_id
      and e.effective_at > timestamptz 'epoch' + %(at)s::bigint * interval '1 microsecond'  -- null = now: nothing is later
) later
