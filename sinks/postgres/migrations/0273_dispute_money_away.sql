-- Disputes that ended otherwise than lost, and whose money the processor still has: every sweep of cases looks for them.
create index dispute_money_away on dispute (updated_at)
    where funds = 'withdrawn' and state in ('won', 'prevented', 'warning_closed');
