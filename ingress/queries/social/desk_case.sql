-- The case of an object; an erased user has none any more. Primary keys.
select c.object_id, c.reports, c.priority,
       case when c.state = 'assigned' and gone.user_id is not null then 'open' else c.state end as state,
       case when gone.user_id is null then c.assignee end as assignee, c.version, c.opened_at, c.updated_at
from moderation_case c left join author gone on gone.user_id = c.assignee and gone.state in ('deleting', 'deleted')
where c.object_id = %(id)s::text
