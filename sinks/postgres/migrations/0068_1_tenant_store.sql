-- What every store of tenants' rows has. Applied in the control database, and by the mover in each dedicated database.

create schema tenancy;
grant usage on schema tenancy to millrace_tenancy_owner, millrace_tenancy_mover, millrace_ingress, millrace_operator, millrace_reader;

-- HMAC-SHA-256 keys of contexts, as the two blocks of RFC 2104. No role of a running process reads them.
create table tenancy.context_key (
    key_id      text collate "C" primary key,
    inner_block bytea not null,
    outer_block bytea not null
);

-- Which generation of a tenant's placement this store serves, and whether it may be written.
create table tenancy.gate (
    tenant_id  text collate "C" primary key,
    generation bigint not null check (generation > 0),
    access     text collate "C" not null check (access in ('rw', 'read_only', 'fenced'))
);

-- The tenants that app.ctx proves. It holds signed contexts, a space between any two of them:
-- tenant|generation|rights|expires (seconds)|key id|mac. Anything missing, forged, expired or of an older generation raises.
-- Rights: r reads, rw writes where the gate is open, move is the mover's, which a fence does not stop.
create function tenancy.tenants_of_context(for_write boolean) returns text[]
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    said  text := current_setting('app.ctx', true);
    one   text;
    parts text[];
    key   tenancy.context_key;
    gate  tenancy.gate;
    proven text[] := '{}';
begin
    if coalesce(said, '') = '' then
        raise exception 'no tenant context' using errcode = '42501';
    end if;
    foreach one in array string_to_array(said, ' ') loop
        parts := string_to_array(one, '|');
        if cardinality(parts) <> 6 then
            raise exception 'the tenant context is not readable' using errcode = '42501';
        end if;
        select * into key from tenancy.context_key k where k.key_id = parts[5];
        if not found or parts[6] is distinct from encode(sha256(key.outer_block || sha256(key.inner_block
               || convert_to(array_to_string(parts[1:5], '|'), 'UTF8'))), 'hex') then
            raise exception 'the tenant context is not signed' using errcode = '42501';
        end if;
        if parts[4]::bigint < extract(epoch from clock_timestamp()) then
            raise exception 'the tenant context has expired' using errcode = '42501';
        end if;
        select * into gate from tenancy.gate g where g.tenant_id = parts[1];
        if not found or gate.generation > parts[2]::bigint then
            raise exception 'the tenant context is of an older generation' using errcode = 'TN001';
        end if;
        if for_write and not (parts[3] = 'move' or (parts[3] = 'rw' and gate.access = 'rw')) then
            raise exception 'the tenant may not be written here' using errcode = 'TN001';
        end if;
        proven := proven || parts[1];
    end loop;
    return proven;
end $$;
revoke all on function tenancy.tenants_of_context(boolean) from public;
grant execute on function tenancy.tenants_of_context(boolean) to millrace_tenancy_owner, millrace_tenancy_mover, millrace_ingress;

-- Makes a schema with the one table of tenants' rows; whoever calls it owns it, and is bound by its policies too.
create function tenancy.make_store(name text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    execute format('create schema if not exists %I', name);
    execute format($ddl$
        create table if not exists %1$I.resource (
            tenant_id   text collate "C" not null,
            resource_id text collate "C" not null,
            version     bigint not null check (version > 0),
            payload     bytea not null,
            deleted     boolean not null,
            primary key (tenant_id, resource_id)
        );
        alter table %1$I.resource enable row level security;
        alter table %1$I.resource force row level security;
        drop policy if exists reads on %1$I.resource;
        drop policy if exists inserts on %1$I.resource;
        drop policy if exists updates on %1$I.resource;
        drop policy if exists removes on %1$I.resource;
        drop policy if exists analysts on %1$I.resource;
        drop policy if exists operators on %1$I.resource;
        create policy reads on %1$I.resource for select to millrace_tenancy_owner, millrace_tenancy_mover, millrace_ingress
            using (tenant_id = any ((select tenancy.tenants_of_context(false))::text[]));
        create policy inserts on %1$I.resource for insert to millrace_tenancy_owner, millrace_tenancy_mover
            with check (tenant_id = any ((select tenancy.tenants_of_context(true))::text[]));
        create policy updates on %1$I.resource for update to millrace_tenancy_owner, millrace_tenancy_mover
            using (tenant_id = any ((select tenancy.tenants_of_context(true))::text[]));
        create policy removes on %1$I.resource for delete to millrace_tenancy_mover
            using (tenant_id = any ((select tenancy.tenants_of_context(true))::text[]));
        create policy analysts on %1$I.resource for select to millrace_reader using (not deleted);
        create policy operators on %1$I.resource for select to millrace_operator using (true);
        grant usage on schema %1$I to millrace_tenancy_owner, millrace_tenancy_mover, millrace_ingress, millrace_reader, millrace_operator;
        grant select, insert, update on %1$I.resource to millrace_tenancy_owner;
        grant select, insert, update, delete on %1$I.resource to millrace_tenancy_mover;
        grant select on %1$I.resource to millrace_ingress, millrace_reader, millrace_operator;
    $ddl$, name);
end $$;

-- Row images into stores of this database: a newer version stays, whatever comes late. Commutes with itself.
create function tenancy.apply_rows(contexts text[], stores text[], tenants text[], ids text[], versions bigint[],
                                   payloads bytea[], deletions boolean[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare store text;
begin
    perform set_config('app.ctx', (select string_agg(distinct c, ' ') from unnest(contexts) c), true);
    for store in select distinct s from unnest(stores) s loop
        execute format('insert into %1$I.resource as r (tenant_id, resource_id, version, payload, deleted)
            select tenant_id, resource_id, version, payload, deleted
            from unnest($1, $2, $3, $4, $5, $6) as t (store, tenant_id, resource_id, version, payload, deleted)
            where store = %1$L
            on conflict (tenant_id, resource_id) do update
            set version = excluded.version, payload = excluded.payload, deleted = excluded.deleted
            where r.version < excluded.version', store)
        using stores, tenants, ids, versions, payloads, deletions;
    end loop;
end $$;

-- Some rows of one tenant, in one store of this database.
create function tenancy.read_rows(context text, store text, tenant text, ids text[])
returns table (resource_id text, version bigint, payload bytea, deleted boolean)
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    perform set_config('app.ctx', context, true);
    return query execute format('select r.resource_id, r.version, r.payload, r.deleted from %I.resource r
        where r.tenant_id = $1 and r.resource_id = any ($2)', store) using tenant, ids;
end $$;

-- The rows of one tenant after an id, in order.
create function tenancy.rows_after(context text, store text, tenant text, after text, at_most integer)
returns table (resource_id text, version bigint, payload bytea, deleted boolean)
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    perform set_config('app.ctx', context, true);
    return query execute format('select r.resource_id, r.version, r.payload, r.deleted from %I.resource r
        where r.tenant_id = $1 and r.resource_id > $2 collate "C" order by r.resource_id limit $3', store)
        using tenant, after, at_most;
end $$;

-- Some rows of one tenant are gone afterwards; how many there were.
create function tenancy.remove_rows(context text, store text, tenant text, at_most integer) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare removed bigint;
begin
    perform set_config('app.ctx', context, true);
    execute format('delete from %1$I.resource r where r.tenant_id = $1 and r.resource_id in
        (select resource_id from %1$I.resource where tenant_id = $1 order by resource_id limit $2)', store)
        using tenant, at_most;
    get diagnostics removed = row_count;
    return removed;
end $$;
