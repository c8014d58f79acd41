-- GET /v1/reports/balance: what each account held at the two ends and what moved between, all in one snapshot. What was
-- held is the present less what came later. Accounts as in balances.sql; lines: ledger_entry_of_merchant.
select w.account, b.currency, (b.balance - m.since_from)::text as opening, m.credits::text as credits,
       m.debits::text as debits, (b.balance - m.since_to)::text as closing
from unnest(%(accounts)s::text[], %(prefixes)s::text[]) as w (account, prefix)
cross join lateral (
    select a.account_id, a.currency, sum(a.credits - a.debits) as balance
    from account_balance a
    where a.account_id >= w.prefix and a.account_id < left(w.prefix, -1) || ';'  -- ';' comes after ':'
      and a.account_id = w.prefix || a.currency and (%(currency)s::text is null or a.currency = %(currency)s)
    group by a.account_id, a.currency
) b
cross join lateral (
    select coalesce(sum(e.credit - e.debit), 0) as since_from,
           coalesce(sum(e.credit - e.debit) filter (where e.effective_at >= r.until), 0) as since_to,
           coalesce(sum(e.credit) filter (where e.effective_at < r.until), 0) as credits,
           coalesce(sum(e.debit) filter (where e.effective_at < r.until), 0) as debits
    from (select timestamptz 'epoch' + %(from)s::bigint * interval '1 microsecond' as since,
                 timestamptz 'epoch' + %(to)s::bigint * interval '1 microsecond' as until) r
    left join merchant_entry e on e.account_id = b.account_id and e.effective_at >= r.since
) m
where (b.currency, w.account) > (%(after_currency)s::text collate "C", %(after_account)s::text collate "C")
order by b.currency collate "C", w.account collate "C"
limit %(limit)s
