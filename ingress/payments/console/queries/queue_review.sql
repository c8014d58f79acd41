-- Payments that wait for a yes or no about their risk, longest first. Served by risk_assessment_review, then primary key.
select p.id as intent_id, p.merchant_id, p.amount, p.currency, p.state, r.score, r.policy_version, r.reasons, r.created_at as at
from (select r.* from risk_assessment r where r.outcome = 'review' and r.decided_by = ''
      order by r.created_at desc limit %(counted)s) r
join payment_intent p on p.id = r.intent_id and p.state = 'requires_merchant_action'
order by r.created_at limit %(limit)s
