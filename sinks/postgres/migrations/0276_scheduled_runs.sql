-- Work that processes do by themselves at intervals: when each was last done as a whole.
create table scheduled_run (
    name    text collate "C" primary key,
    done_at timestamptz                              -- null: never yet
);
insert into scheduled_run (name) values ('case_sweep');

-- The end of a sweep of cases, in its transaction: the worker has no other way to the audit log, nor to the time above.
create function case_sweep_done(p_process text, p_opened integer) returns void language plpgsql
security definer set search_path = public, pg_temp as $$
begin
    update scheduled_run set done_at = clock_timestamp() where name = 'case_sweep';
    perform audit_append('webhook_worker', 'case.sweep', 'cases', 'done',
                         jsonb_build_object('opened', p_opened, 'process', p_process));
end $$;
revoke all on function case_sweep_done from public;
grant execute on function case_sweep_done to millrace_worker;

-- What the sweep reads besides disputes and cases, which the worker reads already.
grant select on scheduled_run to millrace_worker, millrace_operator, millrace_reader, millrace_console;
grant select on account_total to millrace_worker;
grant select (account_id, effective_at, debit, credit) on ledger_entry to millrace_worker;
grant select (id, merchant_id, amount, currency, state, created_at) on payout to millrace_worker;
