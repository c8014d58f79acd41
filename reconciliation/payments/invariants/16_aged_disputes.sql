-- id: aged_disputes
-- title: Money of a dispute that ended otherwise than lost came back within the horizon, or a case says that it did not
-- severity: major
-- owner: reconciliation
-- source: postgres
-- A case that persons closed after the last that was heard of the dispute is their answer.
select d.id, d.merchant_id, d.processor, d.state, d.amount, d.currency, d.updated_at
from dispute d
where d.funds = 'withdrawn' and d.state in ('won', 'prevented', 'warning_closed')
  and d.updated_at < now() - %(horizon_days)s * interval '1 day'
  and not exists (select 1 from repair_case c
                  where c.reference = d.id and c.kind <> 'dispute_due'
                    and (c.state <> 'resolved' or c.resolved_at >= d.updated_at))
