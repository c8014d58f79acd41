-- Counters, as their owner writes them.
create table counter (
    id         text collate "C" primary key,
    partition  integer not null,
    owner      text collate "C" not null,
    label      text not null,
    value      bigint not null,
    state      text collate "C" not null check (state in ('open', 'closed')),
    version    bigint not null,
    created_at bigint not null,
    updated_at bigint not null
);
create index counter_of_owner on counter (owner, created_at, id);

grant select, insert, update on partition_owner to millrace_counter_owner;
grant select, insert on idempotency, outbox, dead_letter, parked_aggregate to millrace_counter_owner;
grant update (published) on dead_letter to millrace_counter_owner;
grant select, insert, update on counter to millrace_counter_owner;
-- What a replay builds beside the live table.
create table millrace_replay.counter (like public.counter including all);
grant select, insert, update, delete, truncate on millrace_replay.counter to millrace_operator;
grant select on counter to millrace_ingress, millrace_operator, millrace_reader;
-- The worker follows events, and writes nothing but how far it got.
grant select, insert, update on stream_position to millrace_counter_worker;
