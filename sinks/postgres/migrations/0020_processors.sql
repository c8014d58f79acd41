-- How processors are, for whoever routes payments; and cases of attempts that only a person can end.

create table processor_health_report (
    processor text collate "C" not null,
    worker    text collate "C" not null,             -- one process; its last row is removed when it says no more
    as_of     timestamptz not null,
    succeeded bigint not null,
    declined  bigint not null,
    failed    bigint not null,
    unknown   bigint not null,
    breaker   text collate "C" not null check (breaker in ('closed', 'half_open', 'open')),
    primary key (processor, worker)
) with (fillfactor = 50);

-- What routers read: one row for each processor, over all workers. A row that is not renewed says nothing any more.
create table processor_health (
    processor text collate "C" primary key,
    as_of     timestamptz not null,
    window_s  integer not null check (window_s > 0),  -- the counts are of operations within so many seconds
    succeeded bigint not null check (succeeded >= 0),
    declined  bigint not null check (declined >= 0),  -- by the issuer: the processor is well
    failed    bigint not null check (failed >= 0),    -- refused, turned away or not reached; none was executed
    unknown   bigint not null check (unknown >= 0),
    breaker   text collate "C" not null check (breaker in ('closed', 'half_open', 'open'))
) with (fillfactor = 50);

grant select, insert, update, delete on processor_health_report to millrace_worker;
grant select, insert, update on processor_health to millrace_worker;
grant select on processor_health_report to millrace_operator, millrace_reader;
grant select on processor_health to millrace_owner, millrace_ingress, millrace_operator, millrace_reader;

-- Workers open the case of an attempt that a person has to end, and close it when a late fact ended it.
grant update (state, resolved_at, resolved_by, note) on repair_case to millrace_worker;

create function attempt_case_id(operation_id text) returns text language sql volatile as
    $$ select 'case_' || substr(encode(sha256(convert_to('attempt' || operation_id || clock_timestamp(), 'UTF8')), 'hex'), 1, 26) $$;

create function attempt_evidence(dispatch jsonb) returns jsonb language sql immutable as
    $$ select jsonb_build_object('payment_intent', dispatch -> 'intent_id', 'attempt', dispatch -> 'attempt',
                                 'kind', dispatch -> 'kind', 'amount', dispatch -> 'amount',
                                 'currency', dispatch -> 'currency', 'last_outcome', dispatch -> 'outcome',
                                 'error_code', dispatch -> 'error_code', 'provider_ref', dispatch -> 'provider_ref',
                                 'sent', dispatch -> 'send_count', 'first_at', dispatch -> 'first_at') $$;
