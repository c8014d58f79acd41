-- Merchants' accounts and their payouts; who is frozen; what reports read of the ledger.

create table merchant_account (
    id            text collate "C" primary key,    -- derived from the merchant, so that its payouts have one owner
    merchant_id   text collate "C" not null unique,
    state         text collate "C" not null check (state in ('active', 'frozen')),
    frozen_reason text,
    version       bigint not null check (version > 0),
    partition     integer not null,
    created_at    timestamptz not null,
    updated_at    timestamptz not null,
    check ((frozen_reason is not null) = (state = 'frozen'))
) with (fillfactor = 70);
create index merchant_account_frozen on merchant_account (merchant_id) where state = 'frozen';

create table payout (
    id             text collate "C" primary key,   -- names its account, see identity.payout_id
    account_id     text collate "C" not null,
    merchant_id    text collate "C" not null,
    amount         bigint not null check (amount > 0),
    currency       text collate "C" not null,
    state          text collate "C" not null check (state in ('pending', 'paid', 'failed', 'canceled')),
    destination    text not null,
    failure_reason text,
    metadata       text not null,
    version        bigint not null check (version > 0),
    created_at     timestamptz not null,
    updated_at     timestamptz not null
) with (fillfactor = 70);
create index payout_of_merchant on payout (merchant_id, created_at, id);  -- lists and reports
create index payout_pending on payout (created_at) where state = 'pending';

-- What owners refuse new payments by, read by every owner once a second.
create view frozen_merchant as select merchant_id from merchant_account where state = 'frozen';

-- The merchant's part of the ledger with what each line is of. The ingress has no right to the rest of it.
create view merchant_activity as
    select e.account_id, e.txn_id, e.line, t.kind, t.reference, e.debit, e.credit, e.currency, e.effective_at
    from ledger_entry e join ledger_txn t using (txn_id)
    where e.account_id >= 'merchant_' and e.account_id < 'merchant`';  -- '`' comes after '_'

grant select, insert, update on merchant_account, payout to millrace_owner;
grant select on merchant_account, payout to millrace_ingress, millrace_operator, millrace_reader;
grant select on frozen_merchant to millrace_owner, millrace_operator, millrace_reader;
grant select on merchant_activity to millrace_ingress, millrace_operator, millrace_reader;

-- The shadows of a replay.
create table millrace_replay.merchant_account (like public.merchant_account including all);
create table millrace_replay.payout (like public.payout including all);
grant select, insert, update, delete, truncate on millrace_replay.merchant_account, millrace_replay.payout to millrace_operator;
