-- id: aged_payouts
-- title: A payout that is pending for longer than its horizon has an open case
-- severity: major
-- owner: reconciliation
-- source: postgres
select p.id, p.merchant_id, p.amount, p.currency, p.created_at
from payout p
where p.state = 'pending' and p.created_at < now() - %(payout_horizon_days)s * interval '1 day'
  and not exists (select 1 from repair_case c where c.state <> 'resolved' and c.reference = p.id)
