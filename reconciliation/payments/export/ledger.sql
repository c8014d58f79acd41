-- What an export reads, in one snapshot and through cursors; each query sees every line of the ledger once.

-- name: accounts
-- Every account with the day of its first line. No index: the whole ledger is read.
select account_id, currency, min((effective_at at time zone 'UTC')::date)::text as opened
from ledger_entry
group by account_id, currency
order by account_id;

-- name: lines
-- Every line with its transaction, in the order of the primary keys.
select t.txn_id, t.reference, t.kind, t.aggregate_key, (t.effective_at at time zone 'UTC')::date::text as day,
       e.account_id, e.currency, e.debit - e.credit as amount
from ledger_txn t
join ledger_entry e using (txn_id)
order by t.txn_id, e.line;

-- name: balances
-- What the owners say that every account holds, for the day after the last line: kept apart from the lines.
select account_id, currency, balance::text,
       (select (max(effective_at at time zone 'UTC')::date + 1)::text from ledger_entry) as day
from account_total
order by account_id;
