-- id: social_propagation
-- title: Every decision has arrived wherever its object is shown within five minutes
-- severity: critical
-- owner: social_propagation
-- source: postgres
select d.decision_id as object, p.consumer as detail, p.attempts, p.seen
from moderation_decision d left join moderation_propagation p using (decision_id)
where p.decision_id is null
   or (p.state = 'pending' and to_timestamp(d.created_at / 1e6) < now() - interval '5 minutes')
