-- What the isolation monitor has seen: how many probes, when all of them were last carried out, what they found, and what the
-- catalog of the database says. A violation stands until a person has looked at it.

create table isolation_round (
    only_one boolean primary key default true check (only_one),
    as_of    timestamptz not null,
    probes   bigint not null
) with (fillfactor = 50);

create table isolation_violation (
    number      bigint generated always as identity primary key,
    seen_at     timestamptz not null default now(),
    probe       text collate "C" not null,
    evidence    text not null,
    resolved_at timestamptz
);
create index isolation_violation_open on isolation_violation (number) where resolved_at is null;

create table isolation_lint (
    lint_id text collate "C" primary key,
    gaps    bigint not null,
    named   text not null                             -- of what is amiss, the first few
);

grant select, insert, update on isolation_round, isolation_lint to millrace_tenancy_monitor;
grant select, insert on isolation_violation to millrace_tenancy_monitor;
grant select on isolation_round, isolation_violation, isolation_lint to millrace_ingress, millrace_operator, millrace_reader;
grant update (resolved_at) on isolation_violation to millrace_operator;
