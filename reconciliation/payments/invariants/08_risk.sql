-- id: risk
-- title: A payment waits for a review exactly while its case does; what risk blocked was never sent, nor what nobody approved
-- severity: critical
-- owner: payments
-- source: postgres
select i.id as object, i.state as detail, 'waits for a review without an open case' as reason
from payment_intent i
where i.state = 'requires_merchant_action'
  and not exists (select 1 from repair_case c
                  where c.kind = 'risk_review' and c.reference = i.id and c.state <> 'resolved')
union all
select i.id, i.state, 'waits for a review that no rule asked for'
from payment_intent i
where i.state = 'requires_merchant_action'
  and not exists (select 1 from risk_assessment r
                  where (r.intent_id, r.attempt, r.decided_by, r.outcome) = (i.id, i.latest_attempt + 1, '', 'review'))
union all
select c.reference, c.id, 'a case waits for the review of a payment that does not wait'
from repair_case c
where c.kind = 'risk_review' and c.state <> 'resolved'
  and not exists (select 1 from payment_intent i where i.id = c.reference and i.state = 'requires_merchant_action')
union all
select a.operation_id, a.status, 'a blocked attempt was sent, or nothing blocked it'
from processor_attempt a
where a.status = 'blocked'
  and (a.provider_ref is not null or a.settled_line is not null
       or exists (select 1 from attempt_dispatch d where d.operation_id = a.operation_id)
       or not exists (select 1 from risk_assessment r
                      where (r.intent_id, r.attempt, r.decided_by, r.outcome) = (a.intent_id, a.attempt, '', 'block')))
union all
select a.operation_id, r.outcome, 'an attempt that the rules stopped was begun'
from risk_assessment r
join processor_attempt a on (a.intent_id, a.attempt) = (r.intent_id, r.attempt)
where r.decided_by = '' and r.outcome <> 'allow'
  and not (r.outcome = 'block' and a.status = 'blocked')
  and not (r.outcome = 'review'
           and exists (select 1 from risk_assessment o
                       where (o.intent_id, o.attempt, o.outcome) = (r.intent_id, r.attempt, 'allow') and o.decided_by <> ''))
