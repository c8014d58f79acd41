-- id: closings
-- title: Every case that persons closed was closed by as many as its kind asks for, is audited, and is in the state that they left
-- severity: critical
-- owner: reconciliation
-- source: postgres
select c.id, c.case_id, c.state, r.state as case_state, c.author, c.decided_by,
       case when c.four_eyes and c.decided_by = c.author then 'closed by its author'
            when not c.is_audited then 'its decision is not in the audit log'
            when r.kind = 'risk_review' then 'only the review of its payment may close it'
            else 'its case is in another state' end as reason
from (select k.*, exists (select 1 from audit_log a where a.object = k.case_id and a.action = 'case.close'
                          and a.outcome = 'done' and a.actor = k.decided_by and a.details ->> 'closing' = k.id) as is_audited
      from case_closing k where k.state in ('proposed', 'closed', 'reopened')) c
join repair_case r on r.id = c.case_id
where (c.state <> 'proposed' and ((c.four_eyes and c.decided_by = c.author) or not c.is_audited))
   or r.kind = 'risk_review'
   or (c.state = 'proposed' and r.state <> 'proposed')
   or (c.state = 'closed' and r.state <> 'resolved')
