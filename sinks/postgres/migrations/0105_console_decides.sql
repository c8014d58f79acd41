-- The console shows moves with the sums of both sides, noisy callers and what the isolation monitor found; a violation is
-- resolved by a person, with a note.
alter table tenant_migration add column source_digest text, add column target_digest text;  -- of the last whole comparison

alter table isolation_violation add column resolved_by text, add column note text;

grant select on noisy_caller, isolation_round, isolation_violation, isolation_lint to millrace_console;

create function isolation_resolve(of_number bigint, by_person text, said text) returns text
language plpgsql security definer set search_path = pg_catalog, public as $$
declare
    known timestamptz;
begin
    select resolved_at into known from isolation_violation where number = of_number for update;
    if not found then
        return 'not_found';
    elsif known is not null then
        return 'resolved_before';
    end if;
    update isolation_violation set resolved_at = now(), resolved_by = by_person, note = said where number = of_number;
    perform audit_append(by_person, 'isolation.resolve', of_number::text, 'done', jsonb_build_object('note', said));
    return 'resolved';
end $$;
revoke all on function isolation_resolve(bigint, text, text) from public;
grant execute on function isolation_resolve(bigint, text, text) to millrace_ingress;
