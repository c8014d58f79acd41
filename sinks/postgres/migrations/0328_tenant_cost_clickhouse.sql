-- What ClickHouse took for a tenant stands beside what the database and the owner did. Slices of it have nothing else.
alter table tenant_cost_slice add column clickhouse_us bigint not null default 0 check (clickhouse_us >= 0);
comment on column tenant_cost_slice.clickhouse_us is 'microseconds of ClickHouse for inserts of its usage, an insert shared by its rows';

-- As in 0324.
drop function tenant_cost_slices(text, text[], bigint[], bigint[], bigint[], bigint[], bigint[]);
create function tenant_cost_slices(of_source text, tenants text[], of_calls bigint[], of_us bigint[], of_commands bigint[],
                                   of_owner_us bigint[], of_bytes bigint[], of_clickhouse_us bigint[])
returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    last  bigint;
    known bigint[];
begin
    select coalesce(array_agg(t.n order by t.n), '{}') into known
    from unnest(tenants) with ordinality t (tenant_id, n) join public.tenant w on w.tenant_id = t.tenant_id;
    update public.tenant_feed f set last_seq = f.last_seq + cardinality(known)
    where f.feed = 'cost' returning f.last_seq into last;
    insert into public.tenant_cost_slice (seq, tenant_id, source, calls, database_us, commands, owner_us, bytes_stored, clickhouse_us)
    select last - cardinality(known) + k.place, tenants[k.n], of_source, of_calls[k.n], of_us[k.n], of_commands[k.n],
           of_owner_us[k.n], of_bytes[k.n], of_clickhouse_us[k.n]
    from unnest(known) with ordinality k (n, place);
    return last;
end $$;
revoke all on function tenant_cost_slices(text, text[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[]) from public;

-- As in 0324.
create or replace function tenant_cost_add(of_source text, tenants text[], of_calls bigint[], of_us bigint[], at_most integer)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    zeros bigint[] := array_fill(0::bigint, array[cardinality(tenants)]);
    last bigint := public.tenant_cost_slices(of_source, tenants, of_calls, of_us, zeros, zeros, zeros, zeros);
begin
    delete from public.tenant_cost_slice where seq in (
        select s.seq from public.tenant_cost_slice s
        where s.ended_at < now() - interval '2 days'
          and s.seq <= (select p.last_seq from public.stream_position p where p.follower = 'tenancy_records' and p.partition = 0)
        order by s.ended_at limit at_most);
    return last;
end $$;

create or replace function tenant_cost_measured(of_source text, tenants text[], of_commands bigint[], of_owner_us bigint[],
                                                of_bytes bigint[])
returns bigint
language sql security definer set search_path = pg_catalog, pg_temp as $$
    select public.tenant_cost_slices(of_source, tenants, n.zeros, n.zeros, of_commands, of_owner_us, of_bytes, n.zeros)
    from (select array_fill(0::bigint, array[cardinality(tenants)]) as zeros) as n;
$$;

-- Slices of the sink that feeds ClickHouse with usage, behind all others.
create function tenant_cost_fed(tenants text[], of_clickhouse_us bigint[]) returns bigint
language sql security definer set search_path = pg_catalog, pg_temp as $$
    select public.tenant_cost_slices('clickhouse', tenants, n.zeros, n.zeros, n.zeros, n.zeros, n.zeros, of_clickhouse_us)
    from (select array_fill(0::bigint, array[cardinality(tenants)]) as zeros) as n;
$$;
revoke all on function tenant_cost_fed(text[], bigint[]) from public;
grant execute on function tenant_cost_fed(text[], bigint[]) to millrace_sink;
