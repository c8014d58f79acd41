-- Ledger transactions that belong to no payment: each an aggregate of its own, at version 1, written by an owner.

create table journal_entry (
    id         text collate "C" primary key,   -- derived from the reference, so that a reference has one owner
    reference  text collate "C" not null,      -- of its ledger transaction, where it is unique
    kind       text collate "C" not null,
    note       text,                           -- why, and who approved it
    scope      text collate "C" not null,      -- "ledger:<who>": the process or person that posted it
    partition  integer not null,
    created_at timestamptz not null
);

grant select, insert on journal_entry to millrace_owner;
grant select on journal_entry to millrace_reader, millrace_operator, millrace_ingress, millrace_worker;

-- What was captured before refunds existed is unsettled: its merchant's share is still pending.
update payment_intent i set amount_pending = p.pending
from (
    select t.aggregate_key, sum(e.credit - e.debit) as pending
    from ledger_txn t join ledger_entry e using (txn_id)
    where starts_with(e.account_id, 'merchant_pending:') group by t.aggregate_key
) p
where p.aggregate_key = i.id and p.pending > 0 and i.amount_pending = 0;

-- The shadow of a replay. Events of version 1 do not say it: null there.
alter table millrace_replay.payment_intent add column amount_pending bigint;
