-- The processor workers' own queue: which attempt is to be carried out, by whom just now, and what came of it.
-- The aggregate (processor_attempt) belongs to the owner of its partition; this table decides nothing about money.

create table attempt_dispatch (
    operation_id     text collate "C" primary key,  -- the attempt's identity at the processor, on every send
    intent_id        text collate "C" not null,
    attempt          integer not null check (attempt > 0),
    processor        text collate "C" not null,
    kind             text collate "C" not null,
    amount           bigint not null check (amount > 0),
    currency         text collate "C" not null,
    payment_method   text not null,
    parent_ref       text,
    final            boolean not null,
    merchant_id      text collate "C" not null,
    trace_id         text collate "C" not null,
    -- waiting: due at next_at. leased: a worker may be calling, until lease_until. reported: the fact is durable in
    -- Kafka, its event not seen yet. done: the owner has a definitive status. review: a person has to decide.
    status           text collate "C" not null check (status in ('waiting', 'leased', 'reported', 'done', 'review')),
    in_doubt         boolean not null,              -- a send may have reached the processor: query before sending again
    lease_owner      text,
    lease_until      timestamptz,
    send_count       integer not null check (send_count >= 0),  -- leases so far, that is, times it may have been sent
    unknown_count    integer not null default 0,    -- unknown outcomes so far: the place in the poll schedule
    report_count     integer not null default 0,    -- how often the fact was repeated for want of its event
    next_at          timestamptz not null,          -- when it is due again; of a lease, its end
    outcome          text collate "C",              -- the last fact, or the status that the owner settled on
    provider_ref     text,
    outcome_amount   bigint,                        -- as the processor echoed it
    outcome_currency text,
    error_code       text,
    first_at         timestamptz not null,
    updated_at       timestamptz not null,
    check ((status = 'leased') = (lease_owner is not null) and (status = 'leased') = (lease_until is not null))
) with (fillfactor = 70);

-- The sweep's only access path; rows that are finished are not in it.
create index attempt_dispatch_due on attempt_dispatch (processor, next_at)
    where status in ('waiting', 'leased');
create index attempt_dispatch_unconfirmed on attempt_dispatch (next_at) where status = 'reported';
create index attempt_dispatch_review on attempt_dispatch (updated_at) where status = 'review';

grant select, insert, update on attempt_dispatch to millrace_worker;
grant select on attempt_dispatch to millrace_reader, millrace_operator, millrace_owner, millrace_ingress;
-- An operator sends work back to the workers; what it is about cannot be changed.
grant update (status, next_at, updated_at) on attempt_dispatch to millrace_operator;
