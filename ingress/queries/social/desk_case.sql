-- The case of an object. Primary key.
select object_id, reports, priority, state, assignee, version, opened_at, updated_at from moderation_case
where object_id = %(id)s::text
