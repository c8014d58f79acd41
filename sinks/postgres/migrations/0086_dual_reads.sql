-- Reads that the API served from the source of a move while it verified, compared with the target: what differs gates the cutover.
alter table tenant_migration
    add column served_reads bigint not null default 0,
    add column served_mismatches bigint not null default 0;

create function tenant_dual_reads(of_tenant text, of_migration text, matched bigint, behind bigint, lacking bigint, differing bigint,
                                  ahead bigint) returns void
language sql security definer set search_path = pg_catalog, public as $$
    update tenant_migration
    set served_reads = served_reads + matched + behind + lacking + differing + ahead,
        served_mismatches = served_mismatches + differing + ahead, mismatches = mismatches + differing + ahead,
        dual_match = dual_match + matched, dual_target_behind = dual_target_behind + behind, dual_missing = dual_missing + lacking,
        dual_diff = dual_diff + differing, dual_target_ahead = dual_target_ahead + ahead
    where tenant_id = of_tenant and migration_id = of_migration and state in ('verifying', 'fencing')
$$;
revoke all on function tenant_dual_reads(text, text, bigint, bigint, bigint, bigint, bigint) from public;
grant execute on function tenant_dual_reads(text, text, bigint, bigint, bigint, bigint, bigint) to millrace_ingress;
