-- A user's own media, newest first, below a place, with what may be served of them. Served by media_of_owner.
select m.media_id, m.mime, m.size as bytes, m.created_at, a.shown_state as scan_state, m.attached_post_id as post_id, m.manifest,
       a.access_version, a.is_served, a.is_public, floor(extract(epoch from clock_timestamp()))::bigint as now_s
from media m join media_access a using (media_id)
where m.owner_id = %(viewer)s::text and (m.created_at, m.media_id) < (%(at)s::bigint, %(id)s::text)
order by m.created_at desc, m.media_id desc limit %(count)s::int
