-- Bank accounts that merchants register to be paid at. The number is no part of the record: events, answers and shadows have its end.

create table payout_destination (
    id             text collate "C" primary key,   -- names its account, see identity.destination_id
    account_id     text collate "C" not null,
    merchant_id    text collate "C" not null,
    name           text not null,
    country        text collate "C",
    bank_code      text collate "C",
    last4          text collate "C" not null,
    state          text collate "C" not null check (state in ('enabled', 'disabled')),
    usable_at      timestamptz not null,
    version        bigint not null check (version > 0),
    created_at     timestamptz not null,
    updated_at     timestamptz not null,
    account_number text collate "C",               -- as the merchant gave it; a shadow has none
    check ((country is null) = (bank_code is not null))
) with (fillfactor = 70);
create index payout_destination_of_account on payout_destination (account_id);  -- what a payout is decided by
create index payout_destination_of_merchant on payout_destination (merchant_id, created_at, id);  -- lists

-- Where merchants are paid never changes under their name: an owner may disable a destination, and end its cooling-off time.
grant select, insert on payout_destination to millrace_owner;
grant update (state, usable_at, version, updated_at) on payout_destination to millrace_owner;
grant select on payout_destination to millrace_ingress, millrace_operator;
grant select (id, account_id, merchant_id, name, country, bank_code, last4, state, usable_at, version, created_at, updated_at)
    on payout_destination to millrace_reader;

create table millrace_replay.payout_destination (like public.payout_destination including all);
grant select, insert, update, delete, truncate on millrace_replay.payout_destination to millrace_operator;

alter table money_proposal drop constraint money_proposal_operation_check;
alter table money_proposal add constraint money_proposal_operation_check
    check (operation in ('convert_currency', 'hold_reserve', 'release_reserve', 'record_payout_outcome',
                         'allow_payout_destination')) not valid;  -- a wider list than the rows were held to
