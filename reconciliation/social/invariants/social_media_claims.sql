-- id: social_media_claims
-- title: A medium is in one post at most, that of its owner, and a post has exactly the media that it names
-- severity: critical
-- owner: social
-- source: postgres
select m.media_id as object, m.scan_state as detail, m.attached_post_id, p.author_id, p.state
from media m join post p on p.post_id = m.attached_post_id
where p.author_id <> m.owner_id
   or (m.scan_state = 'ready' and (p.state <> 'published' or not m.media_id = any (p.media_ids)))
union all
select p.post_id, 'a medium that is not there', named.media_id, p.author_id, p.state
from post p cross join unnest(p.media_ids) as named (media_id)
left join media m on m.media_id = named.media_id and m.attached_post_id = p.post_id and m.scan_state = 'ready'
where m.media_id is null
