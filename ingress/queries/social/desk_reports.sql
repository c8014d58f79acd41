-- What users said of an object, the last first. Primary key.
select user_id, reason, comment, created_at from moderation_report
where object_id = %(id)s::text order by created_at desc limit %(limit)s::int
