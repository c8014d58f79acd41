-- An upload of one's own, and what may be served of it. Primary keys.
select m.media_id, m.owner_id, m.mime, m.size as bytes, m.sha256, a.shown_state as scan_state, m.expires_in_s,
       m.attached_post_id, m.manifest, m.version, a.access_version, a.is_served, a.is_public,
       floor(extract(epoch from clock_timestamp()))::bigint as now_s
from media m join media_access a using (media_id)
where m.media_id = %(media_id)s::text and m.owner_id = %(user_id)s::text
