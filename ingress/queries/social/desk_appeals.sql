-- Appeals that nobody has decided, the oldest first, each with what it is against. Served by moderation_appeal_open.
select a.appeal_id, a.author_id, a.text, a.created_at, d.decision_id, d.object_id, d.decision, d.reason, d.policy_version,
       d.moderator
from moderation_appeal a join moderation_decision d using (decision_id)
where a.state = 'open' order by a.created_at, a.appeal_id limit %(limit)s::int
