-- id: money_by_hand
-- title: Money that moved by hand was proposed by one person, approved by another, is audited, and what is said to be done was decided
-- severity: critical
-- owner: reconciliation
-- source: postgres
-- What earlier releases decided says no sender: then one person was enough. Outcomes of payouts are reconciliation's, too.
with moved as (
    select i.key, i.operation, i.merchant_id, i.event_id from idempotency i
    where i.operation in ('convert_currency', 'hold_reserve', 'release_reserve', 'record_payout_outcome',
                          'allow_payout_destination')
      and (i.operation, i.merchant_id) <> ('record_payout_outcome', 'ledger:reconciliation')
      and i.status = 'committed' and i.sender is not null
),
proposed as (
    select p.id as key, p.operation, p.state, p.author, p.decided_by, p.event_id,
           exists (select 1 from audit_log a where a.object = p.id and a.action = 'money.approve'
                   and a.outcome = 'done' and a.actor = p.decided_by) as is_audited
    from money_proposal p where p.state in ('approved', 'done')
)
select coalesce(m.key, p.key) as key, coalesce(m.operation, p.operation) as operation, p.state, p.author, p.decided_by,
       case when p.key is null then 'nobody proposed and approved it'
            when m.key is null then 'it is said to be done and was not decided'
            when p.author = p.decided_by then 'approved by its author'
            when not p.is_audited then 'its approval is not in the audit log'
            else 'something else was done than was approved' end as reason
from moved m full join proposed p using (key)
where p.key is null
   or (m.key is null and p.state = 'done')
   or p.author is not distinct from p.decided_by
   or not p.is_audited
   or (m.key is not null and (m.operation <> p.operation or m.merchant_id <> 'operator:approved'
                              or (p.state = 'done' and m.event_id is distinct from p.event_id)))
