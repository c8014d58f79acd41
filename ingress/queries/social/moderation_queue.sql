-- Open cases below a place, the most urgent first. Served by moderation_queue.
select object_id, reports, priority, state, assignee, version, opened_at, updated_at from moderation_case
where state <> 'decided' and (priority, object_id) < (%(priority)s::bigint, %(id)s::text)
order by priority desc, object_id desc limit %(limit)s::int
