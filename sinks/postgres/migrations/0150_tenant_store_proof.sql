-- Readers have their context proven by a view in place of a function with two look-ups of its own: it is part of the reading
-- statement's plan, and evaluated once in it. What raised before raises still, with the same codes. In the control database
-- and in every dedicated one.

create function tenancy.refuse(why text, code text) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception '%', why using errcode = code;
end $$;
revoke all on function tenancy.refuse(text, text) from public;
grant execute on function tenancy.refuse(text, text) to millrace_ingress;

-- The tenant that app.ctx proves, for who only reads: one context, and the rules of tenancy.tenants_of_context, which stays
-- for those who write. It reads keys and gates with its owner's rights, and shows nothing of them: its row is the tenant of a
-- context that holds, or raises. CASE keeps the order: nothing of a text is believed before its mac.
create view tenancy.proven with (security_barrier) as
select case
           when coalesce(cardinality(c.parts), 0) = 0 then tenancy.refuse('no tenant context', '42501')
           when cardinality(c.parts) <> 6 then tenancy.refuse('the tenant context is not readable', '42501')
           when k.key_id is null or c.parts[6] is distinct from encode(sha256(k.outer_block || sha256(k.inner_block
                || convert_to(array_to_string(c.parts[1:5], '|'), 'UTF8'))), 'hex')
               then tenancy.refuse('the tenant context is not signed', '42501')
           when c.parts[4]::bigint < extract(epoch from clock_timestamp())
               then tenancy.refuse('the tenant context has expired', '42501')
           when g.tenant_id is null or g.generation > c.parts[2]::bigint
               then tenancy.refuse('the tenant context is of an older generation', 'TN001')
           else c.parts[1]
       end as tenant_id
from (select string_to_array(current_setting('app.ctx', true), '|') as parts offset 0) c
left join tenancy.context_key k on k.key_id = c.parts[5]
left join tenancy.gate g on g.tenant_id = c.parts[1];
revoke all on tenancy.proven from public;
grant select on tenancy.proven to millrace_ingress;

-- As in 0068; and who only reads has a policy of its own, of one tenant. Schemas that were made before keep the common one.
create or replace function tenancy.make_store(name text) returns void
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
        drop policy if exists reads_one on %1$I.resource;
        drop policy if exists inserts on %1$I.resource;
        drop policy if exists updates on %1$I.resource;
        drop policy if exists removes on %1$I.resource;
        drop policy if exists analysts on %1$I.resource;
        drop policy if exists operators on %1$I.resource;
        create policy reads on %1$I.resource for select to millrace_tenancy_owner, millrace_tenancy_mover
            using (tenant_id = any ((select tenancy.tenants_of_context(false))::text[]));
        create policy reads_one on %1$I.resource for select to millrace_ingress
            using (tenant_id = (select p.tenant_id from tenancy.proven p));
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

-- The pool, where there is one already: one that a mover is still making gets the policies as it is made.
do $$
begin
    if to_regclass('tenancy_pool.resource') is not null then
        drop policy reads on tenancy_pool.resource;
        create policy reads on tenancy_pool.resource for select to millrace_tenancy_owner, millrace_tenancy_mover
            using (tenant_id = any ((select tenancy.tenants_of_context(false))::text[]));
        create policy reads_one on tenancy_pool.resource for select to millrace_ingress
            using (tenant_id = (select p.tenant_id from tenancy.proven p));
    end if;
end $$;

comment on view tenancy.proven is 'The tenant that the signed context of the transaction proves; anything else raises';
comment on column tenancy.proven.tenant_id is 'whose rows it may see';
