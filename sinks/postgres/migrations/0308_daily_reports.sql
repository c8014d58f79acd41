-- Reports of processors that are fetched each day without a person: the last day that is over, and how the next one goes.
alter table scheduled_run
    add column day      date,                        -- of reports: the last day that is over; null of other work
    add column tries    integer not null default 0,  -- of the day after it, so far
    add column tried_at timestamptz,
    add column note     text;                        -- why it is not over yet

-- Where a processor's days begin: nothing of before it had an hour is asked for.
create function reports_begin(p_name text, p_day date) returns void language sql
security definer set search_path = public, pg_temp as $$
    insert into scheduled_run (name, day) values (p_name, p_day) on conflict do nothing
$$;

-- A day that is not over yet was tried: by all processes together, whoever tries next.
create function reports_tried(p_name text, p_before date, p_note text) returns void language sql
security definer set search_path = public, pg_temp as $$
    update scheduled_run set tries = tries + 1, tried_at = clock_timestamp(), note = p_note
    where name = p_name and day = p_before
$$;

-- Days are over, in the transaction that opens their cases: false when another process was faster, which then opened them.
create function reports_done(p_name text, p_before date, p_day date, p_details jsonb) returns boolean language plpgsql
security definer set search_path = public, pg_temp as $$
begin
    update scheduled_run set day = p_day, done_at = clock_timestamp(), tries = 0, tried_at = null, note = null
    where name = p_name and day = p_before;
    if not found then
        return false;
    end if;
    perform audit_append('webhook_worker', 'settlement.reconcile', p_name, 'done', p_details);
    return true;
end $$;
revoke all on function reports_begin, reports_tried, reports_done from public;
grant execute on function reports_begin, reports_tried, reports_done to millrace_settlement;

-- What reconciliation reads and writes, as the operator's role may at a shell, and no more.
grant select on scheduled_run, settlement_report, settlement_line, settlement_line_change, settlement_discrepancy,
    settlement_due, processor_attempt, refund, dispute, payout, policy_version, repair_case, repair_proposal,
    money_proposal, attempt_outcome_proposal, idempotency, account_total, ledger_entry, ledger_txn to millrace_settlement;
grant insert, update on settlement_report, settlement_discrepancy, settlement_line_change to millrace_settlement;
grant insert, update, delete on settlement_line to millrace_settlement;
grant insert, delete on settlement_due to millrace_settlement;
grant insert, update (state, resolved_at, resolved_by, note) on repair_case to millrace_settlement;
