-- What the mover looks for all the time, among a hundred thousand placements.
create index placement_asked_for on placement (placement_id) where state = 'provisioning';

-- Ends the sessions of all roles in a tenant's own database, so that its mover can drop it; in no other database.
create function tenancy.end_sessions(name text) returns bigint
language sql security definer set search_path = pg_catalog, pg_temp as $$
    select count(pg_terminate_backend(a.pid))
    from pg_stat_activity a join pg_database d on d.datname = a.datname
    where d.datname = name and pg_get_userbyid(d.datdba) = 'millrace_tenancy_mover' and a.pid <> pg_backend_pid()
$$;
revoke all on function tenancy.end_sessions(text) from public;
grant execute on function tenancy.end_sessions(text) to millrace_tenancy_mover;
