-- Which files of its kind a store has: of the control database and of each dedicated one. Applied in all of them.
create table tenancy.store_file (
    file       text collate "C" primary key,
    applied_at timestamptz not null default now()
);
insert into tenancy.store_file (file) values ('0068_1_tenant_store.sql'), ('0085_tenant_store_files.sql');
grant select on tenancy.store_file to millrace_tenancy_mover, millrace_ingress, millrace_operator, millrace_reader;

-- A page of one tenant's rows behind an id, up to another one where that is given: how many, the last id, and two sums that
-- do not depend on their order: of what heads know of them, and of all of them.
create function tenancy.digest_rows(context text, store text, tenant text, after text, upto text, at_most integer)
returns table (last_id text, rows bigint, heads numeric, whole numeric)
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    perform set_config('app.ctx', context, true);
    return query execute format('select max(p.resource_id), count(*), coalesce(sum(hashtextextended(p.head, 0)::numeric), 0),
            coalesce(sum(hashtextextended(p.head || ''|'' || md5(p.payload), 0)::numeric), 0)
        from (select r.resource_id, r.payload, r.resource_id || ''|'' || r.version || ''|'' || r.deleted as head
              from %I.resource r
              where r.tenant_id = $1 and r.resource_id > $2 collate "C" and ($3 = '''' or r.resource_id <= $3 collate "C")
              order by r.resource_id limit $4) p', store)
        using tenant, after, upto, at_most;
end $$;
grant execute on function tenancy.digest_rows(text, text, text, text, text, integer) to millrace_tenancy_mover;
