-- id: outcomes
-- title: Every outcome that persons took over was approved by a second one, is audited, and is what the attempt became or was refused
-- severity: critical
-- owner: reconciliation
-- source: postgres
select o.id, o.operation_id, o.state, o.author, o.decided_by,
       case when o.author = o.decided_by then 'approved by its author'
            when not o.is_audited then 'its approval is not in the audit log'
            else 'the owner never decided it' end as reason
from (
    select p.id, p.operation_id, p.state, p.author, p.decided_by,
           exists (select 1 from audit_log a where a.object = p.id and a.action = 'attempt.approve_outcome'
                   and a.outcome = 'done' and a.actor = p.decided_by) as is_audited,
           exists (select 1 from idempotency i where i.merchant_id = 'processor:' || p.processor
                   and i.key = p.operation_id || ':' || p.id) as is_decided
    from attempt_outcome_proposal p where p.state in ('approved', 'recorded', 'refused')
) o
where o.author = o.decided_by or not o.is_audited or (o.state <> 'approved' and not o.is_decided)
