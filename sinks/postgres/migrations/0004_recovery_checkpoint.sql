-- Named positions to recover from, the columns of an audited operator, and the place where shadows are built.

-- The spec's recovery checkpoint (spec 1, section 6), with a name and the time it was taken.
create table recovery_checkpoint (
    name                  text collate "C" primary key check (length(name) between 1 and 128),
    scenario              text not null,
    operation_id          text not null,
    aggregate_key         text collate "C",
    last_durable_version  bigint,
    projection_checkpoint jsonb not null,             -- [{"topic", "partition", "offset", "seq"}]
    retry_policy          jsonb not null,             -- same identity, bounded backoff
    reconciliation_status text not null check (reconciliation_status in ('pending', 'clean', 'gaps')),
    owner                 text not null,
    created_at            timestamptz not null default now()
);
create index recovery_checkpoint_newest on recovery_checkpoint (created_at, name);

-- An operator's decision about a parked record: who and when are in 0001; why, and that it is in its topic again.
alter table dead_letter add column resolution_note text;
alter table dead_letter add column republished_at timestamptz;

-- Shadows of projections. The operator fills them and owns none: the exchange below runs with its owner's rights, and
-- must not fire a trigger that an operator wrote.
create schema millrace_replay;
create table millrace_replay.account_balance (like public.account_balance including all);
create table millrace_replay.payment_intent (like public.payment_intent including all);
grant usage on schema millrace_replay to millrace_operator;
grant select, insert, update, delete, truncate on all tables in schema millrace_replay to millrace_operator;

-- Exchanges the contents of account_balance and its shadow in the caller's transaction. The caller has locked the live
-- table and brought the shadow up to the end of the outbox; the old contents stay in the shadow for comparison.
create function account_balance_exchange() returns bigint language plpgsql security definer
    set search_path = pg_catalog, public as $$
declare
    changed bigint;
begin
    create temporary table account_balance_before on commit drop as select * from public.account_balance;
    delete from public.account_balance;
    insert into public.account_balance select * from millrace_replay.account_balance;
    get diagnostics changed = row_count;
    delete from millrace_replay.account_balance;
    insert into millrace_replay.account_balance select * from account_balance_before;
    return changed;
end $$;
-- Holds the owners' commits back until the caller's transaction ends: an operator may not lock the table otherwise.
create function account_balance_hold() returns void language sql security definer
    set search_path = pg_catalog, public as 'lock table public.account_balance in share row exclusive mode';
revoke execute on function account_balance_exchange(), account_balance_hold() from public;
grant execute on function account_balance_exchange(), account_balance_hold() to millrace_operator;

grant select on recovery_checkpoint to millrace_ingress, millrace_reader, millrace_operator, millrace_sink;
grant insert on recovery_checkpoint to millrace_operator, millrace_sink, millrace_owner;
grant update (reconciliation_status) on recovery_checkpoint to millrace_operator;
grant update (resolution_note, republished_at) on dead_letter to millrace_operator;
