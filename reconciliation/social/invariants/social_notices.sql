-- id: social_notices
-- title: What a user is told has happened: there is the reaction, the edge or the post, which names who was mentioned
-- severity: critical
-- owner: social
-- source: postgres
select n.notification_id as object, n.kind as detail, n.actor_id, n.post_id
from notification n
where case
          when n.kind in ('like', 'repost') then not exists (
              select from reaction r where r.post_id = n.post_id and r.kind = n.kind and r.user_id = n.actor_id)
          when n.kind in ('follow', 'follow_request') then not exists (
              select from follow f where f.follower_id = n.actor_id and f.followee_id = n.user_id)
          when n.kind in ('reply', 'quote', 'mention') then not exists (
              select from post p where p.post_id = n.post_id and p.author_id = n.actor_id)
          else false
      end
union all
select n.notification_id, 'mention of a user whom the post names no more', n.actor_id, n.post_id
from notification n join post p using (post_id)
where n.kind = 'mention' and p.version > 1 and p.state = 'published'  -- what a post is published with names them
  and not exists (select from moderation_decision d where d.object_id = p.post_id and d.decision = 'remove')  -- may be edited meanwhile
  and not exists (select from regexp_matches(p.text, '(?<![A-Za-z0-9_-])@([A-Za-z0-9_-]{1,64})', 'g') as named
                  where named[1] = n.user_id)
