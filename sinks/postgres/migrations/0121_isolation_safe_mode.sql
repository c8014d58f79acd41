-- Where the isolation monitor has proved that tenants can reach each other, no tenant is shown anything any more (safe mode),
-- until two persons lift it; they can as soon as a whole round since then found nothing.
create table isolation_safe_mode (
    only_one    boolean primary key default true check (only_one),
    is_on       boolean not null default false,
    since       timestamptz,
    probe       text collate "C",
    evidence    text,
    canaries    text[] not null default '{}',        -- tenants that the monitor asks as: it goes on asking
    proposed_by text collate "C",                    -- who would lift it
    proposed_at timestamptz,
    check (not is_on or (since is not null and probe is not null and evidence is not null)),
    check ((proposed_by is null) = (proposed_at is null))
);
insert into isolation_safe_mode default values;
grant select on isolation_safe_mode to millrace_ingress, millrace_console, millrace_operator, millrace_reader;

-- On, in one transaction with its audit row and its case. What is found again later withdraws who would lift it.
create function isolation_safe_mode_on(of_probe text, of_evidence text, by_actor text) returns boolean
language plpgsql security definer set search_path = pg_catalog, public as $$
declare
    before isolation_safe_mode;
begin
    select * into strict before from isolation_safe_mode for update;
    if before.is_on then
        update isolation_safe_mode set proposed_by = null, proposed_at = null where (probe, evidence) <> (of_probe, of_evidence);
        return false;
    end if;
    update isolation_safe_mode
    set is_on = true, since = clock_timestamp(), probe = of_probe, evidence = of_evidence,
        proposed_by = null, proposed_at = null;
    insert into repair_case (id, kind, reference, evidence)
    values ('case_safe_mode_' || (extract(epoch from clock_timestamp()) * 1000000)::bigint, 'isolation_safe_mode', 'tenancy',
            jsonb_build_object('probe', of_probe, 'evidence', of_evidence))
    on conflict do nothing;
    perform audit_append(by_actor, 'isolation.safe_mode', of_probe, 'done', jsonb_build_object('evidence', of_evidence));
    return true;
end $$;
create function isolation_trip(of_probe text, of_evidence text) returns boolean
language sql security definer set search_path = pg_catalog, public as $$
    select isolation_safe_mode_on(of_probe, of_evidence, 'isolation_monitor')
$$;
-- The monitor asks as these, in safe mode too.
create function isolation_canaries(ids text[]) returns boolean
language sql security definer set search_path = pg_catalog, public as $$
    update isolation_safe_mode set canaries = ids where canaries <> ids returning true
$$;
create function isolation_close(by_person text, said text) returns text
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    return case when isolation_safe_mode_on('by hand', said, by_person) then 'closed' else 'mode_on' end;
end $$;

-- A word: 'proposed' by the first person, 'lifted' by another. 'mode_off'; 'evidence_open' while a violation waits for a person
-- or the catalog has a gap; 'round_outstanding' until a whole round since all of that, of the last seconds, found nothing.
create function isolation_lift(by_person text, said text, stale_s integer) returns text
language plpgsql security definer set search_path = pg_catalog, public as $$
declare
    before isolation_safe_mode;
    looked timestamptz;
begin
    select * into strict before from isolation_safe_mode for update;
    if not before.is_on then
        return 'mode_off';
    elsif exists (select from isolation_violation where resolved_at is null)
          or exists (select from isolation_lint where gaps > 0) then
        return 'evidence_open';
    end if;
    select as_of into looked from isolation_round;
    if looked is null or looked < clock_timestamp() - make_interval(secs => stale_s)
       or looked <= greatest(before.since, (select max(seen_at) from isolation_violation)) then
        return 'round_outstanding';
    elsif before.proposed_by is null then
        update isolation_safe_mode set proposed_by = by_person, proposed_at = clock_timestamp();
        perform audit_append(by_person, 'isolation.propose_lift', before.probe, 'done', jsonb_build_object('note', said));
        return 'proposed';
    elsif before.proposed_by = by_person then
        return 'four_eyes_required';
    end if;
    update isolation_safe_mode set is_on = false, proposed_by = null, proposed_at = null;
    update repair_case
    set state = 'resolved', resolved_at = clock_timestamp(), resolved_by = before.proposed_by || ', ' || by_person, note = said
    where kind = 'isolation_safe_mode' and reference = 'tenancy' and state <> 'resolved';
    perform audit_append(by_person, 'isolation.lift', before.probe, 'done',
                         jsonb_build_object('note', said, 'proposed_by', before.proposed_by, 'since', before.since));
    return 'lifted';
end $$;

revoke all on function isolation_safe_mode_on(text, text, text), isolation_trip(text, text), isolation_canaries(text[]),
    isolation_close(text, text), isolation_lift(text, text, integer) from public;
grant execute on function isolation_trip(text, text), isolation_canaries(text[]) to millrace_tenancy_monitor;
grant execute on function isolation_close(text, text), isolation_lift(text, text, integer) to millrace_ingress;
