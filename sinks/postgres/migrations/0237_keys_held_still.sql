-- While a root key is taken away no key of a tenant is wrapped: who wraps one holds the table (row exclusive) from before it
-- chooses the root key until it has committed, and who counts what a root key wraps waits for all of them, until its own end.
create function tenant_keys_held_still() returns void
language plpgsql security definer set search_path = pg_catalog, public set lock_timeout = '2s' as $$
begin
    lock table tenant_key in share row exclusive mode;
end $$;
revoke all on function tenant_keys_held_still() from public;
grant execute on function tenant_keys_held_still() to millrace_operator;
