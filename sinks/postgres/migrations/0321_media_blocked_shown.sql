-- A medium that no post has and whose content is blocked is served to nobody, and its owner hears so: no post may take it. What
-- a post has is for moderators, so nothing more is asked of it. From the lift on the medium is what it was. Primary keys.
create or replace view media_access as
select m.media_id, m.owner_id, m.attached_post_id, m.manifest,
       m.access_version + a.access_epoch + coalesce(p.access_epoch, 0) + decided.epochs as access_version,
       m.scan_state = 'ready' and a.state = 'active' and (p.post_id is null or p.state = 'published')
           and not decided.is_removed as is_served,
       coalesce(p.visibility = 'public' and not a.is_private, false) as is_public,
       case when m.scan_state = 'ready' and decided.is_removed then 'taken_down' else m.scan_state end as shown_state
from media m
join author a on a.user_id = m.owner_id
left join post p on p.post_id = m.attached_post_id
cross join lateral (
    select coalesce(sum(c.epoch), 0)::bigint as epochs,
           coalesce(bool_or(c.effect = 'remove'), false)
               or case when m.attached_post_id is null then exists (select from media_blocked b where b.sha256 = m.sha256)
                       else false end as is_removed
    from moderation_current c where c.object_id in (m.media_id, m.attached_post_id, m.owner_id)) as decided;
