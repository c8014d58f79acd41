-- What tenants cost, as it was measured where their statements run: slices, never changed, in gapless places for the sink of
-- ClickHouse, which takes evidence of the isolation monitor from its places, too.

create table tenant_feed (
    feed     text collate "C" primary key check (feed in ('cost', 'evidence')),
    last_seq bigint not null default 0
);
comment on table tenant_feed is 'The last place of what a sink of ClickHouse reads in order';
comment on column tenant_feed.feed is 'cost: of tenant_cost_slice; evidence: of isolation_violation';
comment on column tenant_feed.last_seq is 'committed in order: whoever adds holds this row';

create table tenant_cost_slice (
    seq         bigint not null,
    tenant_id   text collate "C" not null,
    ended_at    timestamptz not null default now(),
    source      text collate "C" not null,
    calls       bigint not null check (calls >= 0),
    database_us bigint not null check (database_us >= 0),
    primary key (tenant_id, seq)
);
create index tenant_cost_slice_place on tenant_cost_slice (seq);
comment on table tenant_cost_slice is 'What a tenant cost in a while, as one process measured it';
comment on column tenant_cost_slice.seq is '1, 2, 3 without a gap';
comment on column tenant_cost_slice.tenant_id is 'whose statements they were';
comment on column tenant_cost_slice.ended_at is 'when the while was over; it is of a minute at most';
comment on column tenant_cost_slice.source is 'which process: ingress-0';
comment on column tenant_cost_slice.calls is 'statements that named the tenant';
comment on column tenant_cost_slice.database_us is 'microseconds until they were answered, waits for a connection left out';
create index tenant_cost_slice_ended on tenant_cost_slice (ended_at);

alter table isolation_violation add column place bigint;
comment on column isolation_violation.place is '1, 2, 3 without a gap, in the order in which they were committed';
with placed as (select number, row_number() over (order by number) as place from isolation_violation)
update isolation_violation v set place = p.place from placed p where p.number = v.number;
insert into tenant_feed select 'evidence', count(*) from isolation_violation;
insert into tenant_feed values ('cost', 0);
alter table isolation_violation alter column place set not null;
create unique index isolation_violation_place on isolation_violation (place);

create function isolation_violation_placed() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    update public.tenant_feed f set last_seq = f.last_seq + 1 where f.feed = 'evidence' returning f.last_seq into new.place;
    return new;
end $$;
create trigger isolation_violation_placed before insert on isolation_violation
    for each row execute function isolation_violation_placed();

-- Slices of one process; and some are removed that ClickHouse has, two days later.
create function tenant_cost_add(of_source text, tenants text[], of_calls bigint[], of_us bigint[], at_most integer) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    last bigint;
    many bigint := cardinality(tenants);
begin
    update public.tenant_feed f set last_seq = f.last_seq + many where f.feed = 'cost' returning f.last_seq into last;
    insert into public.tenant_cost_slice (seq, tenant_id, source, calls, database_us)
    select last - many + t.n, t.tenant_id, of_source, t.calls, t.us
    from unnest(tenants, of_calls, of_us) with ordinality t (tenant_id, calls, us, n);
    delete from public.tenant_cost_slice where seq in (
        select s.seq from public.tenant_cost_slice s
        where s.ended_at < now() - interval '2 days'
          and s.seq <= (select p.last_seq from public.stream_position p where p.follower = 'tenancy_records' and p.partition = 0)
        order by s.ended_at limit at_most);
    return last;
end $$;

-- Tenants that had most of a process's time of the database, as callers that had most of a partition's owner.
create function tenant_noise_heard(of_process integer, callers text[], shares integer[], ms bigint[], again_s integer, move_windows integer)
returns bigint
language sql security definer set search_path = pg_catalog, pg_temp as $$
    with heard as (
        insert into public.noisy_caller as n (topic, caller, partition, share_percent, units_left, windows, since, seen_at)
        select 'database', t.caller, of_process, t.share, t.ms, 1, clock_timestamp(), clock_timestamp()
        from unnest(callers, shares, ms) as t (caller, share, ms) order by t.caller
        on conflict (topic, caller, partition) do update
        set share_percent = excluded.share_percent, units_left = excluded.units_left, seen_at = excluded.seen_at,
            windows = case when n.seen_at < excluded.seen_at - make_interval(secs => again_s) then 1 else n.windows + 1 end,
            since = case when n.seen_at < excluded.seen_at - make_interval(secs => again_s) then excluded.since else n.since end,
            move_proposed_at = case when n.windows + 1 >= move_windows
                                         and n.seen_at >= excluded.seen_at - make_interval(secs => again_s)
                                    then coalesce(n.move_proposed_at, excluded.seen_at) else n.move_proposed_at end
        returning 1)
    select count(*) from heard
$$;

revoke all on function tenant_cost_add(text, text[], bigint[], bigint[], integer), isolation_violation_placed(),
    tenant_noise_heard(integer, text[], integer[], bigint[], integer, integer) from public;
grant execute on function tenant_cost_add(text, text[], bigint[], bigint[], integer),
    tenant_noise_heard(integer, text[], integer[], bigint[], integer, integer) to millrace_ingress;
grant select on tenant_feed, tenant_cost_slice, isolation_violation, audit_log to millrace_sink;
grant select on audit_head to millrace_sink;
grant select on tenant_feed, tenant_cost_slice to millrace_operator;
comment on column noisy_caller.topic is 'of the commands; database: statements of the ingress, and the partition is its process';
comment on column noisy_caller.units_left is 'that waited at once: commands, and each KiB of them; of the database: milliseconds';
