-- The decision in force about an object, unless it is none. Primary keys.
select d.decision_id, d.object_id, d.author_id, d.decision, d.reason, d.policy_version, d.label, d.expires_at, d.supersedes,
       d.moderator, d.version, d.created_at, d.object_version, coalesce(d.beside, false)
from moderation_current c join moderation_decision d using (decision_id)
where c.object_id = %(id)s::text and c.effect <> 'none'
