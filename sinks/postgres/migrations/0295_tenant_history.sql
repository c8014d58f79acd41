-- What of a tenant was changed, by whom and when: a row for each version in which its state, plan, quotas or placement are other
-- than before. It begins with this migration, and nobody may change or remove a row.
create table tenant_history (
    tenant_id  text collate "C" not null,
    version    bigint not null,
    at         bigint not null,
    made_by    text not null,
    operation  text collate "C",
    request_id text collate "C",
    changed    jsonb not null,
    primary key (tenant_id, version)
);
comment on table tenant_history is 'What of a tenant was changed, by whom and when; rows are only added';
comment on column tenant_history.tenant_id is 'whose';
comment on column tenant_history.version is 'of the tenant, which the change made';
comment on column tenant_history.at is 'when, in microseconds since 1970';
comment on column tenant_history.made_by is 'in whose name; of what processes do by themselves, their role';
comment on column tenant_history.operation is 'the command; null = what processes do by themselves';
comment on column tenant_history.request_id is 'of that command';
comment on column tenant_history.changed is 'by name, what it was and what it is';
grant select, insert on tenant_history to millrace_tenancy_owner, millrace_tenancy_mover;
grant select on tenant_history to millrace_ingress, millrace_operator, millrace_reader, millrace_console;

-- Owners write the rows of their commands before they write the tenant, in the same commit. Whatever else writes one (a mover, an
-- owner of before) leaves a row of its own, so that no way around the history is left.
create function tenant_history_note() returns trigger language plpgsql as $$
declare
    before  jsonb := case when tg_op = 'UPDATE' then to_jsonb(old) else '{}' end;
    since   bigint := case when tg_op = 'UPDATE' then old.version else 0 end;
    changed jsonb;
begin
    if exists (select from tenant_history h
               where h.tenant_id = new.tenant_id and h.version > since and h.version <= new.version) then
        return null;
    end if;
    select jsonb_object_agg(n.key, jsonb_build_array(before -> n.key, n.value)) into changed
    from jsonb_each(to_jsonb(new)) n
    where n.key in ('name', 'tier', 'state', 'suspension', 'reason', 'timezone', 'home_currency', 'quotas', 'prices',
                    'placement_id', 'generation')
      and n.value is distinct from coalesce(before -> n.key, 'null');
    if changed is not null then
        insert into tenant_history (tenant_id, version, at, made_by, changed)
        values (new.tenant_id, new.version, new.updated_at, current_user, changed)
        on conflict do nothing;  -- by hand, and without another version: nothing of ours does so
    end if;
    return null;
end $$;
create trigger tenant_history_note after insert or update on tenant for each row execute function tenant_history_note();
