-- A medium for the desk: whose it is, and which post has it; none of an erased user. Primary keys.
select m.owner_id, m.attached_post_id as post_id, m.mime, m.scan_state, m.version
from media m join author o on o.user_id = m.owner_id
where m.media_id = %(id)s::text and o.state not in ('deleting', 'deleted')
