-- The disputes of a payment. Served by dispute_of_intent.
select d.id, d.processor, d.provider_ref, d.amount, d.currency, d.fee, d.reason, d.state, d.funds, d.version, d.created_at,
       d.updated_at, d.evidence_state, d.evidence_due_by
from dispute d where d.intent_id = %(id)s order by d.created_at, d.id limit %(limit)s
