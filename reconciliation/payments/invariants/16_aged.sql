-- id: aged
-- title: Money that waits in suspense or on its way for longer than the horizon has an open case
-- severity: major
-- owner: reconciliation
-- source: postgres
-- What is left of a balance after all that came within the horizon is what is older.
select a.account_id, a.balance, a.aged
from (
    select b.account_id, b.balance,
           abs(b.balance) - coalesce(sum(greatest(sign(b.balance) * (e.debit - e.credit), 0)), 0) as aged
    from account_total b
    left join ledger_entry e on e.account_id = b.account_id
                            and e.effective_at >= now() - %(horizon_days)s * interval '1 day'
    where b.account_id ~ '^(recon_suspense|rounding|payout_in_transit):' and b.balance <> 0
    group by b.account_id, b.balance
) a
where a.aged > 0
  and not exists (select 1 from repair_case c
                  where c.state <> 'resolved' and c.reference = a.account_id)
