-- A context may say by which version of its tenant's policy it was decided: tenant|generation|rights|expires (seconds)|policy|key
-- id|mac. One of an older policy than the gate knows is refused, as one of an older generation is. Contexts without it, of
-- processes of releases before, hold as they did; the mover's own say none. In the control database and every dedicated one. The
-- view of readers follows in 0246.

alter table tenancy.gate add column policy_version bigint not null default 0;
comment on column tenancy.gate.policy_version is 'what was decided by an older policy of the tenant is refused; 0 = none is known';

create or replace function tenancy.tenants_of_context(for_write boolean) returns text[]
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    said  text := current_setting('app.ctx', true);
    one   text;
    parts text[];
    n     integer;
    key   tenancy.context_key;
    gate  tenancy.gate;
    proven text[] := '{}';
begin
    if coalesce(said, '') = '' then
        raise exception 'no tenant context' using errcode = '42501';
    end if;
    foreach one in array string_to_array(said, ' ') loop
        parts := string_to_array(one, '|');
        n := cardinality(parts);
        if n not in (6, 7) then
            raise exception 'the tenant context is not readable' using errcode = '42501';
        end if;
        select * into key from tenancy.context_key k where k.key_id = parts[n - 1];
        if not found or parts[n] is distinct from encode(sha256(key.outer_block || sha256(key.inner_block
               || convert_to(array_to_string(parts[1:n - 1], '|'), 'UTF8'))), 'hex') then
            raise exception 'the tenant context is not signed' using errcode = '42501';
        end if;
        if parts[4]::bigint < extract(epoch from clock_timestamp()) then
            raise exception 'the tenant context has expired' using errcode = '42501';
        end if;
        select * into gate from tenancy.gate g where g.tenant_id = parts[1];
        if not found or gate.generation > parts[2]::bigint then
            raise exception 'the tenant context is of an older generation' using errcode = 'TN001';
        end if;
        if n = 7 and gate.policy_version > parts[5]::bigint then
            raise exception 'the tenant context is of an older policy' using errcode = 'TN001';
        end if;
        if for_write and not (parts[3] = 'move' or (parts[3] = 'rw' and gate.access = 'rw')) then
            raise exception 'the tenant may not be written here' using errcode = 'TN001';
        end if;
        proven := proven || parts[1];
    end loop;
    return proven;
end $$;
