-- What fan-out put off ends with a user who is erased: who is in it, and whose homes.
grant select, update, delete on fanout_waiting to millrace_social_eraser;

-- Waits for what is being put off by statements that may have begun before an erasure did. All later ones see it.
create function fanout_waiting_settled() returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    lock table public.fanout_waiting in share mode;
    return 0;
end $$;
revoke all on function fanout_waiting_settled() from public;
grant execute on function fanout_waiting_settled() to millrace_social_eraser;
