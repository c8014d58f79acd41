-- One decision. Primary key.
select decision_id, object_id, author_id, decision, reason, policy_version, label, expires_at, supersedes, moderator, version,
       created_at, object_version, coalesce(beside, false)
from moderation_decision where decision_id = %(id)s::text
