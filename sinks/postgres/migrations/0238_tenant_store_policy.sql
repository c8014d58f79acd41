-- A context may say by which version of its tenant's policy it was decided: tenant|generation|rights|expires (seconds)|policy|key
-- id|mac. One of an older policy than the gate knows is refused, as one of an older generation is. Contexts without it, of
-- processes of releases before, hold as they did; the mover's own say none. In the control database and every dedicated one.

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

create or replace view tenancy.proven with (security_barrier) as
select case
           when coalesce(c.n, 0) = 0 then tenancy.refuse('no tenant context', '42501')
           when c.n not in (6, 7) then tenancy.refuse('the tenant context is not readable', '42501')
           when k.key_id is null or c.parts[c.n] is distinct from encode(sha256(k.outer_block || sha256(k.inner_block
                || convert_to(array_to_string(c.parts[1:c.n - 1], '|'), 'UTF8'))), 'hex')
               then tenancy.refuse('the tenant context is not signed', '42501')
           when c.parts[4]::bigint < extract(epoch from clock_timestamp())
               then tenancy.refuse('the tenant context has expired', '42501')
           when g.tenant_id is null or g.generation > c.parts[2]::bigint
               then tenancy.refuse('the tenant context is of an older generation', 'TN001')
           when c.n = 7 and g.policy_version > c.parts[5]::bigint
               then tenancy.refuse('the tenant context is of an older policy', 'TN001')
           else c.parts[1]
       end as tenant_id
from (select a.parts, cardinality(a.parts) as n
      from (select string_to_array(current_setting('app.ctx', true), '|') as parts offset 0) a offset 0) c
left join tenancy.context_key k on k.key_id = c.parts[c.n - 1]
left join tenancy.gate g on g.tenant_id = c.parts[1];
