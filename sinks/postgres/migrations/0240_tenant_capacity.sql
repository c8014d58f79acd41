-- What the stores of tenants' rows hold, and what they may. A store is a schema that tenants share; those of tenants' own count
-- together: all schemas of the control database, and all databases. How many tenants one holds is counted in the commit that
-- brings or takes them, whoever commits it; how many bytes, the mover measures now and then.
create table tenant_store (
    store       text collate "C" primary key,
    mode        text collate "C" not null check (mode in ('pooled', 'partitioned', 'dedicated')),
    is_made     boolean not null default true,     -- else the mover makes it, and it takes nobody before
    tenants_max bigint check (tenants_max >= 0),   -- null = what the release says of the mode
    bytes_max   bigint check (bytes_max >= 0),     -- null = no bound
    tenants     bigint not null default 0 check (tenants >= 0),
    bytes       bigint,                            -- null = not measured yet
    measured_at timestamptz,
    check (store ~ case mode when 'pooled' then '^tenancy_pool(_[0-9]{1,3})?$' when 'partitioned' then '^schemas$' else '^databases$' end)
);
comment on table tenant_store is 'Stores of tenants'' rows: what they hold, and may';
comment on column tenant_store.store is 'a schema that tenants share, or all schemas (schemas) or databases (databases) of tenants'' own';
comment on column tenant_store.mode is 'of the placements in it: pooled, partitioned or dedicated';
comment on column tenant_store.is_made is 'false while the mover has to make it';
comment on column tenant_store.tenants_max is 'how many tenants it may hold; null = as many as the release says';
comment on column tenant_store.bytes_max is 'from how many bytes on it takes no further tenant; null = it is not asked';
comment on column tenant_store.tenants is 'that it holds: those that it serves, and the other side of open moves';
comment on column tenant_store.bytes is 'on disk, as they were measured last';
comment on column tenant_store.measured_at is 'when that was';

create function tenant_store_of(of_placement text) returns text
language sql stable set search_path = pg_catalog, pg_temp
return (select case p.mode when 'pooled' then p.shard_or_database when 'partitioned' then 'schemas' else 'databases' end
        from public.placement p where p.placement_id = of_placement);

-- In one order, so that two who bring tenants to several stores do not wait for each other.
create function tenant_stores_hold(placements text[], change bigint) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare found record;
begin
    for found in select public.tenant_store_of(p) as store, count(*) as n from unnest(placements) p group by 1 order by 1 loop
        update public.tenant_store s set tenants = greatest(s.tenants + change * found.n, 0) where s.store = found.store;
    end loop;
end $$;

create function tenants_came() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    perform public.tenant_stores_hold((select array_agg(c.placement_id) from came c), 1);
    return null;
end $$;
create trigger tenants_came after insert on tenant referencing new table as came
    for each statement execute function tenants_came();

create function tenant_went() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    perform public.tenant_stores_hold(array[new.placement_id], -1);
    return null;
end $$;
create trigger tenant_went after update of state on tenant
    for each row when (new.state = 'deleted' and old.state <> 'deleted') execute function tenant_went();

create function tenant_move_held() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if tg_op = 'INSERT' then
        perform public.tenant_stores_hold(array[new.target], 1);
    else
        perform public.tenant_stores_hold(array[case new.state when 'completed' then new.source else new.target end], -1);
    end if;
    return null;
end $$;
create trigger tenant_move_begun after insert on tenant_migration
    for each row when (new.state not in ('completed', 'aborted', 'rolled_back')) execute function tenant_move_held();
create trigger tenant_move_over after update of state on tenant_migration
    for each row when (new.state in ('completed', 'aborted', 'rolled_back')
                       and old.state not in ('completed', 'aborted', 'rolled_back')) execute function tenant_move_held();

-- Nobody brings a tenant between the count and the triggers' first one.
lock table tenant, tenant_migration in share row exclusive mode;
insert into tenant_store (store, mode, tenants)
select s.store, s.mode, count(h.placement_id)
from (values ('tenancy_pool', 'pooled'), ('schemas', 'partitioned'), ('databases', 'dedicated')) s (store, mode)
left join (select placement_id from tenant where state <> 'deleted'
           union all
           select case m.target when t.placement_id then m.source else m.target end
           from tenant_migration m join tenant t using (tenant_id)
           where m.state not in ('completed', 'aborted', 'rolled_back')) h on tenant_store_of(h.placement_id) = s.store
group by s.store, s.mode;

grant select, insert, update (tenants_max, bytes_max) on tenant_store to millrace_operator;
grant select on tenant_store to millrace_ingress, millrace_reader, millrace_console, millrace_tenancy_owner, millrace_tenancy_mover;
grant update (tenants) on tenant_store to millrace_tenancy_owner;
grant update (tenants, bytes, measured_at, is_made) on tenant_store to millrace_tenancy_mover;

-- For the check: all rows of tenants that share a schema, whichever. As its caller may see them.
create function tenant_pooled_rows() returns table (tenant_id text, resource_id text, version bigint, deleted boolean)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare pool text;
begin
    for pool in select s.store from public.tenant_store s where s.mode = 'pooled' and s.is_made loop
        return query execute format('select r.tenant_id, r.resource_id, r.version, r.deleted from %I.resource r', pool);
    end loop;
end $$;
