-- The renditions of a medium whose case, or whose post's, this moderator has; and when that is. Only what was scanned clean
-- has any. Primary keys.
select m.manifest, extract(epoch from clock_timestamp())::float8
from media m join author o on o.user_id = m.owner_id
where m.media_id = %(media_id)s::text and m.scan_state = 'ready' and o.state not in ('deleting', 'deleted')
  and (m.media_id = %(id)s::text or m.attached_post_id = %(id)s::text)
  and exists (select from moderation_case c
              where c.object_id = %(id)s::text and c.state = 'assigned' and c.assignee = %(moderator)s::text)
