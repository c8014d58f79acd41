-- The labels of an object, the last first. Primary key.
select label, policy_version, expires_at, decision_id from moderation_label
where object_id = %(id)s::text order by version desc
