-- id: social_media_served
-- title: Only what was scanned as clean is served, and nothing of a post, a user or a medium that is hidden from all
-- severity: critical
-- owner: social
-- source: postgres
select a.media_id as object, m.scan_state as detail, a.attached_post_id, u.state, a.is_public
from media_access a join media m using (media_id) join author u on u.user_id = m.owner_id
left join post p on p.post_id = m.attached_post_id
where (a.is_served
       and (m.scan_state <> 'ready' or u.state <> 'active' or p.state = 'deleted'
            or exists (select from media_blocked b where b.sha256 = m.sha256 and b.added_at < to_timestamp(m.updated_at / 1e6))
            or exists (select from moderation_current c
                       where c.object_id in (a.media_id, a.attached_post_id, a.owner_id) and c.effect = 'remove')))
   or (a.is_public and (u.is_private or p.visibility is distinct from 'public'))
