-- Appeals that nobody has decided below a place, the last first. Served by moderation_appeal_open.
select a.created_at, a.appeal_id, a.decision_id, a.author_id, a.text, a.state, a.version, d.object_id, d.decision
from moderation_appeal a join moderation_decision d using (decision_id)
where a.state = 'open'
  and (a.created_at, a.appeal_id) < (%(at)s::bigint, %(id)s::text)
order by a.created_at desc, a.appeal_id desc limit %(limit)s::int
