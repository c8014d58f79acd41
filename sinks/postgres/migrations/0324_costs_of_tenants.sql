-- What costs anything is a tenant: an id that nobody has, as a path may name one, leaves no slice. Slices of before stay.
alter table tenant_feed add column known_from bigint not null default 0;
update tenant_feed set known_from = last_seq where feed = 'cost';
comment on column tenant_feed.known_from is 'behind this place every slice is of a tenant that is there, or was';

-- As in 0299.
create or replace function tenant_cost_add(of_source text, tenants text[], of_calls bigint[], of_us bigint[], at_most integer)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    last  bigint;
    known bigint[];
begin
    select coalesce(array_agg(t.n order by t.n), '{}') into known
    from unnest(tenants) with ordinality t (tenant_id, n) join public.tenant w on w.tenant_id = t.tenant_id;
    update public.tenant_feed f set last_seq = f.last_seq + cardinality(known) where f.feed = 'cost' returning f.last_seq into last;
    insert into public.tenant_cost_slice (seq, tenant_id, source, calls, database_us)
    select last - cardinality(known) + k.place, tenants[k.n], of_source, of_calls[k.n], of_us[k.n]
    from unnest(known) with ordinality k (n, place);
    delete from public.tenant_cost_slice where seq in (
        select s.seq from public.tenant_cost_slice s
        where s.ended_at < now() - interval '2 days'
          and s.seq <= (select p.last_seq from public.stream_position p where p.follower = 'tenancy_records' and p.partition = 0)
        order by s.ended_at limit at_most);
    return last;
end $$;

-- As in 0310.
create or replace function tenant_cost_measured(of_source text, tenants text[], of_commands bigint[], of_owner_us bigint[],
                                                of_bytes bigint[])
returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    last  bigint;
    known bigint[];
begin
    select coalesce(array_agg(t.n order by t.n), '{}') into known
    from unnest(tenants) with ordinality t (tenant_id, n) join public.tenant w on w.tenant_id = t.tenant_id;
    update public.tenant_feed f set last_seq = f.last_seq + cardinality(known) where f.feed = 'cost' returning f.last_seq into last;
    insert into public.tenant_cost_slice (seq, tenant_id, source, calls, database_us, commands, owner_us, bytes_stored)
    select last - cardinality(known) + k.place, tenants[k.n], of_source, 0, 0, of_commands[k.n], of_owner_us[k.n], of_bytes[k.n]
    from unnest(known) with ordinality k (n, place);
    return last;
end $$;
