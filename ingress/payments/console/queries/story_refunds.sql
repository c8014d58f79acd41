-- The refunds of a payment. Served by refund_of_intent.
select r.id, r.attempt, r.amount, r.currency, r.state, r.reason, r.pending_reason, r.failure_reason, r.version, r.created_at,
       r.updated_at
from refund r where r.intent_id = %(id)s order by r.created_at, r.id limit %(limit)s
