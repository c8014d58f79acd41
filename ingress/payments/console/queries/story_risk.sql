-- What the risk rules and operators said of a payment. Primary key.
select r.attempt, r.decided_by, r.outcome, r.score, r.policy_version, r.reasons, r.created_at
from risk_assessment r where r.intent_id = %(id)s order by r.created_at limit %(limit)s
