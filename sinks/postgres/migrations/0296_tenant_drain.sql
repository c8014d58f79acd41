-- A schema that tenants share may be emptied: it takes nobody any more, its tenants are moved into others some at a time, and
-- once nobody is in it, it is retired. Whether one is full follows from what it holds.
alter table tenant_store
    add column standing text collate "C" not null default 'open' check (standing in ('open', 'draining', 'retired')),
    add column drain_soak_s bigint check (drain_soak_s >= 0),
    add constraint tenant_store_drained_is_shared check (standing = 'open' or mode = 'pooled'),
    add constraint tenant_store_retired_is_empty check (standing <> 'retired' or tenants = 0);
comment on column tenant_store.standing is 'open; draining: its tenants are moved away; retired: nobody is in it, and nobody comes';
comment on column tenant_store.drain_soak_s is 'for how many seconds a tenant that is moved away may still go back; null = as for any move';

alter table tenant_migration
    add column drained_from text collate "C",
    add column soak_s bigint check (soak_s >= 0);
comment on column tenant_migration.drained_from is 'the store that is drained by it; null = a person asked for it';
comment on column tenant_migration.soak_s is 'for how many seconds it soaks, where not as long as any move';

-- Whoever is in a placement, the oldest first.
create index tenant_placed on tenant (placement_id, created_at, tenant_id);

grant insert on tenant_migration to millrace_tenancy_mover;
grant insert on placement to millrace_tenancy_mover;
grant update (standing) on tenant_store to millrace_tenancy_mover;

-- The word: 'draining' or 'opened'; 'not_found', 'store_not_shared' of one that is no schema that tenants share, 'store_last' where
-- tenants could go nowhere, 'store_<standing>' of one that is so already.
create function tenant_store_stand(of_store text, stands text, soak_s bigint, by_person text, said text) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    known public.tenant_store;
begin
    perform from public.tenant_store s order by s.store for update;  -- of two who drain the last two, one is second
    select * into known from public.tenant_store s where s.store = of_store;
    if not found then
        return 'not_found';
    elsif known.mode <> 'pooled' then
        return 'store_not_shared';
    elsif stands = 'draining' and known.standing <> 'open' then
        return 'store_' || known.standing;
    elsif stands = 'draining' and not exists (select from public.tenant_store s where s.mode = 'pooled' and s.is_made
                                              and s.standing = 'open' and s.store <> of_store) then
        return 'store_last';
    elsif stands = 'open' and known.standing = 'open' then
        return 'store_open';
    elsif stands not in ('draining', 'open') then
        raise exception 'no standing of a store: %', stands;
    end if;
    update public.tenant_store s set standing = stands, drain_soak_s = soak_s where s.store = of_store;
    perform public.audit_append(by_person, case stands when 'open' then 'placement.activate' else 'placement.drain' end, of_store,
                                'done', jsonb_build_object('note', said, 'soak_s', soak_s));
    return case stands when 'open' then 'opened' else stands end;
end $$;
revoke all on function tenant_store_stand(text, text, bigint, text, text) from public;
grant execute on function tenant_store_stand(text, text, bigint, text, text) to millrace_ingress;
