-- GET /v1/payment_intents/{id}/risk: what the rules and operators said of each confirm. Primary key prefix.
select a.attempt, nullif(a.decided_by, ''), a.outcome, a.score, a.policy_version, a.reasons,
       (extract(epoch from a.created_at) * 1000000)::bigint
from risk_assessment a where a.intent_id = %(id)s order by a.attempt, a.created_at, a.decided_by
limit %(limit)s
