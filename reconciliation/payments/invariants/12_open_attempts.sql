-- id: 12
-- title: Every open attempt is scheduled, leased, reported or a person's with an open case, and every finished one at rest
-- severity: major
-- owner: processor_worker
-- source: postgres
-- A worker writes its row when it reads the event, so an attempt younger than the grace has none yet.
select a.intent_id, a.attempt, a.status as attempt_status, a.updated_at, d.status as dispatch_status, d.next_at
from processor_attempt a
left join attempt_dispatch d using (operation_id)
where (a.status in ('created', 'pending', 'unknown', 'requires_action')
       and (d.operation_id is null or d.status in ('done', 'review'))
       and a.updated_at < now() - %(grace_s)s * interval '1 second')
   or (d.operation_id is not null and (d.intent_id, d.attempt, d.amount, d.currency) is distinct from
       (a.intent_id, a.attempt, a.amount, a.currency))
   or (a.status not in ('created', 'pending', 'unknown', 'requires_action', 'manual_review') and d.status in ('waiting', 'leased')
       and greatest(a.updated_at, d.updated_at) < now() - %(grace_s)s * interval '1 second')
union all
select d.intent_id, d.attempt, null, null, d.status, d.next_at
from attempt_dispatch d
where not exists (select 1 from processor_attempt a where a.intent_id = d.intent_id and a.attempt = d.attempt)
union all
-- past its budget: somebody is asked, or has answered after the last that was heard of it
select a.intent_id, a.attempt, a.status, a.updated_at, d.status, null
from processor_attempt a
left join attempt_dispatch d using (operation_id)
where (a.status = 'manual_review' or (a.status in ('created', 'pending', 'unknown', 'requires_action') and d.status = 'review'))
  and greatest(a.updated_at, d.updated_at) < now() - %(grace_s)s * interval '1 second'
  and not exists (select 1 from repair_case c
                  where c.kind = 'attempt_review' and c.reference = a.operation_id
                    and (c.state <> 'resolved' or c.resolved_at >= a.updated_at))
