-- id: 8
-- title: No intent takes more than was asked for, and no refund was granted beyond what was received and not disputed
-- severity: critical
-- owner: payments
-- source: postgres
-- A dispute may come after a refund of the same money: that is the payer's bank, and no refund of ours. So refunds and
-- disputes together are over the cap only where a refund was made after the last change of the disputes that count. A
-- refund that had failed and was paid after all is a money fact: it is left out of what was granted. What was taken
-- beside another charge (a purchase that is not final) was posted because two persons vouched for it, with its refund.
with refunds as (
    select r.intent_id, r.amount, r.created_at,
           exists (select 1 from processor_attempt a join ledger_txn f on f.reference = a.operation_id || ':refund_failed'
                   where a.intent_id = r.intent_id and a.attempt = r.attempt) as had_failed
    from refund r where r.state in ('pending', 'requires_action', 'succeeded')
),
active as (
    select intent_id as id, sum(amount) as given, sum(amount) filter (where not had_failed) as granted,
           max(created_at) filter (where not had_failed) as last_granted
    from refunds group by intent_id
),
disputed as (
    select intent_id as id, sum(amount) as amount, max(updated_at) as last_changed
    from dispute
    where not (funds = 'reinstated' and state in ('lost', 'appeal_needs_response', 'appeal_under_review'))
      and (state in ('needs_response', 'under_review', 'appeal_needs_response', 'appeal_under_review', 'lost')
       or (state in ('warning_needs_response', 'warning_under_review') and funds = 'withdrawn'))
    group by intent_id
)
select i.id, i.amount, i.amount_received, i.amount_capturable, i.amount_refunded, r.given, d.amount as disputed
from payment_intent i
left join active r using (id)
left join disputed d using (id)
where i.amount_received + i.amount_capturable > i.amount
      + coalesce((select sum(a.amount) from processor_attempt a
                  where a.intent_id = i.id and a.kind = 'purchase' and a.status = 'captured' and not a.final), 0)
   or i.amount_refunded > i.amount_received
   or r.given > i.amount_received
   or (r.granted + d.amount > i.amount_received and r.last_granted > d.last_changed)
