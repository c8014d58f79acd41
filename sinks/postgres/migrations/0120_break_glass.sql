-- Support breaks the glass: two others approve, the tenant is told at once and not asked, and somebody reviews it afterwards.
-- What is over is reviewed, ordinary grants too: by whom, when, with what findings.
alter table support_grant
    add column break_glass boolean not null default false,
    add column reviewed_by text collate "C",
    add column reviewed_at timestamptz,
    add column findings    text,
    drop constraint support_grant_state_check,
    add constraint support_grant_state_check
        check (state in ('requested', 'approved', 'active', 'denied', 'revoked', 'reviewed')),
    add constraint support_grant_review_check
        check ((state = 'reviewed') = (reviewed_by is not null and reviewed_at is not null and findings is not null)
               and reviewed_by is distinct from requester and not (break_glass and approvers ? coalesce(reviewed_by, ''))),
    add constraint support_grant_glass_check
        check (not break_glass
               or (duration_s <= 1800
                   and (expires_at is null or (jsonb_array_length(approvers) >= 2 and approvers -> 0 <> approvers -> 1))));
grant update (reviewed_by, reviewed_at, findings) on support_grant to millrace_tenancy_owner;
create index support_grant_glass on support_grant (created_at) where break_glass;

comment on column support_grant.state is 'requested, approved, active, denied, revoked, reviewed; active past expires_at is over';
comment on column support_grant.break_glass is 'whether it is an emergency, which two others approve';
comment on column support_grant.reviewed_by is 'who reviewed it, when it was over';
comment on column support_grant.reviewed_at is 'when';
comment on column support_grant.findings is 'what was found then';

-- Told in the transaction that does it, whoever does: a case from when it is asked for until it is reviewed (or ended unused),
-- and a row of the tenant's audit log when it becomes active.
create function support_glass_told() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    if tg_op = 'INSERT' then
        insert into repair_case (id, kind, reference, evidence)
        values ('case_' || new.grant_id, 'break_glass', new.grant_id,
                jsonb_build_object('tenant_id', new.tenant_id, 'requester', new.requester, 'ticket', new.ticket,
                                   'reason', new.reason, 'scopes', new.scopes));
    elsif new.state = 'active' and old.state <> 'active' then
        with head as (
            insert into tenant_audit_head as h (tenant_id, last_seq) values (new.tenant_id, 1)
            on conflict (tenant_id) do update set last_seq = h.last_seq + 1
            returning last_seq)
        insert into tenant_audit (tenant_id, seq, actor, grant_id, action, object, result)
        select new.tenant_id, head.last_seq, new.requester, new.grant_id, 'break glass', new.grant_id, 'done' from head;
    elsif new.state = 'reviewed' or (new.state in ('denied', 'revoked') and new.expires_at is null) then
        update repair_case
        set state = 'resolved', resolved_at = clock_timestamp(), resolved_by = coalesce(new.reviewed_by, new.ended_by),
            note = coalesce(new.findings, new.state || ' before it was active')
        where kind = 'break_glass' and reference = new.grant_id and state <> 'resolved';
    end if;
    return null;
end $$;
create trigger support_glass_asked_for after insert on support_grant for each row
    when (new.break_glass) execute function support_glass_told();
create trigger support_glass_changes after update of state on support_grant for each row
    when (new.break_glass and new.state <> old.state) execute function support_glass_told();

-- As in 0038; and a case of tenants stays open until what it is about is over.
create or replace function case_cause(p_case repair_case, p_horizon_days integer) returns text language plpgsql stable
security definer set search_path = public, pg_temp as $$
begin
    if p_case.kind = 'break_glass' then
        return 'grant_unreviewed';
    end if;
    if p_case.kind = 'isolation_safe_mode' then
        return 'mode_on';
    end if;
    if p_case.kind = 'risk_review' then
        return 'review_waits';
    end if;
    if p_case.kind = 'attempt_review' and exists (
        select from attempt_dispatch d join processor_attempt a on a.intent_id = d.intent_id and a.attempt = d.attempt
        where d.operation_id = p_case.reference
          and a.status in ('created', 'pending', 'unknown', 'requires_action', 'manual_review')) then
        return 'attempt_open';
    end if;
    if exists (select from payout p where p.id = p_case.reference and p.state = 'pending')
       and not exists (select from repair_case o
                       where o.reference = p_case.reference and o.id <> p_case.id and o.state <> 'resolved') then
        return 'payout_pending';
    end if;
    -- As invariant aged: what is left of a balance after all that came within the horizon is what is older.
    if exists (
        select from account_total b
        where (b.account_id = p_case.reference or split_part(b.account_id, ':', 2) = p_case.processor)
          and b.account_id ~ '^(recon_suspense|rounding|payout_in_transit):'
          and abs(b.balance) > (select coalesce(sum(greatest(sign(b.balance) * (e.debit - e.credit), 0)), 0)
                                from ledger_entry e
                                where e.account_id = b.account_id
                                  and e.effective_at >= now() - make_interval(days => p_horizon_days))
          and not exists (select from repair_case o
                          where o.id <> p_case.id and o.state <> 'resolved'
                            and o.reference = b.account_id)) then
        return 'money_waits';
    end if;
    return null;
end $$;
