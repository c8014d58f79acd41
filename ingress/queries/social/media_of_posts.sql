-- The media of those of these posts that the viewer may see, each post's in its order. The rule and the access version are of
-- one moment: a URL of a version that a hiding change made is for none whom it hid the post from. Served by media_of_post.
select a.attached_post_id as post_id, a.media_id, m.mime, a.manifest, a.access_version, a.is_served, a.is_public,
       floor(extract(epoch from clock_timestamp()))::bigint as now_s
from media_access a join media m using (media_id) join post p on p.post_id = a.attached_post_id
where a.attached_post_id = any (%(post_ids)s::text[])
  and exists (select from social_sees(%(viewer)s::text, p.post_id, p.author_id, p.visibility, p.state))
order by a.attached_post_id, array_position(p.media_ids, a.media_id)
