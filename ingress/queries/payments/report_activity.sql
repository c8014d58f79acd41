-- GET /v1/reports/activity: every line on the merchant's accounts in the order of time, after a place in it. Each account
-- gives at most a page of its own: ledger_entry_of_merchant, then the primary key of ledger_txn.
select (extract(epoch from x.effective_at) * 1000000)::bigint as at, x.txn_id, x.line, w.account, b.currency, x.kind,
       x.reference, x.amount
from unnest(%(accounts)s::text[], %(prefixes)s::text[]) as w (account, prefix)
cross join lateral (
    select a.account_id, a.currency, sum(a.credits - a.debits) as balance
    from account_balance a
    where a.account_id >= w.prefix and a.account_id < left(w.prefix, -1) || ';'  -- ';' comes after ':'
      and a.account_id = w.prefix || a.currency and (%(currency)s::text is null or a.currency = %(currency)s)
    group by a.account_id, a.currency
) b
cross join lateral (
    select e.effective_at, e.txn_id, e.line, e.kind, e.reference, e.credit - e.debit as amount
    from merchant_activity e
    where e.account_id = b.account_id
      and e.effective_at >= timestamptz 'epoch' + greatest(%(from)s::bigint, %(after_at)s::bigint) * interval '1 microsecond'
      and e.effective_at < timestamptz 'epoch' + %(to)s::bigint * interval '1 microsecond'
      and (e.effective_at, e.txn_id, e.line)
          > (timestamptz 'epoch' + %(after_at)s::bigint * interval '1 microsecond', %(after_txn)s::bigint, %(after_line)s::int)
    order by e.effective_at, e.txn_id, e.line
    limit %(limit)s
) x
order by x.effective_at, x.txn_id, x.line
limit %(limit)s
