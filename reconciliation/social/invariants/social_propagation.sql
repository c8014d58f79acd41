-- id: social_propagation
-- title: Every decision is looked after wherever its object is shown and arrives within five minutes, as does all that hides media
-- severity: critical
-- owner: social_propagation
-- source: postgres
select d.decision_id as object, c.consumer as detail, p.attempts, p.seen
from moderation_decision d
cross join (values ('homes'), ('media_origin'), ('notifications'), ('posts'), ('search')) as c (consumer)
left join moderation_propagation p on p.decision_id = d.decision_id and p.consumer = c.consumer
where p.decision_id is null
union all
select p.decision_id, p.consumer, p.attempts, p.seen  -- caches in front of the media origin too
from moderation_propagation p join moderation_decision d using (decision_id)
where p.state = 'pending' and to_timestamp(d.created_at / 1e6) < now() - interval '5 minutes'
union all
select h.object_id, 'media_hidden', h.attempts, h.seen
from media_hidden h where h.hidden_at < now() - interval '5 minutes'
