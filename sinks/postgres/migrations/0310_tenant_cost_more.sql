-- What tenants cost beside the database's time of calls: commands, the owner's time, and the bytes of what they keep. Slices of
-- these have no calls, and those of calls have none of these.
alter table tenant_cost_slice
    add column commands bigint not null default 0 check (commands >= 0),
    add column owner_us bigint not null default 0 check (owner_us >= 0),
    add column bytes_stored bigint not null default 0 check (bytes_stored >= 0);
comment on column tenant_cost_slice.commands is 'commands of the tenant that its owner decided';
comment on column tenant_cost_slice.owner_us is 'microseconds from the first read of their rounds to the commit, a round shared by its commands';
comment on column tenant_cost_slice.bytes_stored is 'bytes of all live payloads at that moment, 0 = not measured then';

-- Slices of an owner or of the mover, behind all others.
create function tenant_cost_measured(of_source text, tenants text[], of_commands bigint[], of_owner_us bigint[], of_bytes bigint[])
returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    last bigint;
    many bigint := cardinality(tenants);
begin
    update public.tenant_feed f set last_seq = f.last_seq + many where f.feed = 'cost' returning f.last_seq into last;
    insert into public.tenant_cost_slice (seq, tenant_id, source, calls, database_us, commands, owner_us, bytes_stored)
    select last - many + t.n, t.tenant_id, of_source, 0, 0, t.commands, t.owner_us, t.bytes
    from unnest(tenants, of_commands, of_owner_us, of_bytes) with ordinality t (tenant_id, commands, owner_us, bytes, n);
    return last;
end $$;
revoke all on function tenant_cost_measured(text, text[], bigint[], bigint[], bigint[]) from public;
grant execute on function tenant_cost_measured(text, text[], bigint[], bigint[], bigint[])
    to millrace_tenancy_owner, millrace_tenancy_mover;
