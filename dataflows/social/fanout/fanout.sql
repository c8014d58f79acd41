-- name: posts_of
-- Those of a batch's posts that are there, and who keeps one to itself: it tells of it anew when it opens it, and who reposted
-- it does not. Primary key.
select post_id, created_at, case when visibility = 'private' then author_id end from post
where post_id = any (%(ids)s::text[]) and state = 'published';

-- name: followers_after
-- The next followers of each user behind one, in the order of ids. Served by follow_followers.
select u.user_id, f.followers from unnest(%(users)s::text[], %(after)s::text[]) as u (user_id, after)
cross join lateral (
    select array_agg(n.follower_id) as followers from (
        select follower_id from follow
        where followee_id = u.user_id and state = 'active' and follower_id > u.after
        order by follower_id limit %(count)s) as n) as f
where f.followers is not null;

-- name: still_follow
-- Those of some who follow a user now: whose edge ended since has no post of it. Primary key.
select follower_id from follow
where follower_id = any (%(homes)s::text[]) and followee_id = %(user_id)s and state = 'active';

-- name: is_following
-- Whether an edge is active, and still of this version: a task of an edge that ended meanwhile does nothing, also where
-- another one began. Primary key.
select exists (select from follow
               where follower_id = %(user_id)s and followee_id = %(followee)s and state = 'active' and version = %(version)s);

-- name: newest_of
-- The last posts that a user published for others, or reposted, and that readers do not pull. Served by post_pushed and
-- reaction_reposted.
(select created_at, post_id from post
 where author_id = %(user_id)s and state = 'published' and is_pushed and visibility <> 'private'
 order by created_at desc, post_id desc limit %(count)s)
union
select p.created_at, p.post_id from (
    select r.post_id from reaction r
    where r.user_id = %(user_id)s and r.kind = 'repost' and r.state = 'active' and r.is_pushed
    order by r.post_at desc, r.post_id desc limit %(count)s) as reposted
join post p using (post_id) where p.state = 'published';

-- name: who_had
-- Those whose followers may have a post at home, so many of them: its author first, and who reposted it, where it was pushed.
-- Primary keys.
(select author_id from post where post_id = %(post_id)s and is_pushed)
union all
(select user_id from reaction where post_id = %(post_id)s and kind = 'repost' and is_pushed
   and user_id <> (select author_id from post where post_id = %(post_id)s) limit %(count)s);

-- name: who_had_any_of
-- Those whose followers may have a post of a user at home whose posts have ended. Served by post_deleted; primary key of reaction.
select author_id from post where author_id = %(user_id)s and state = 'deleted' and is_pushed
union select r.user_id from post p join reaction r on r.post_id = p.post_id and r.kind = 'repost' and r.is_pushed
where p.author_id = %(user_id)s and p.state = 'deleted';

-- name: notifications_forget
-- The next notifications of a post that nobody may see any more: all those of a post that is liked a lot would take longer
-- than a statement may. Served by notification_of_post.
with gone as (
    delete from notification where notification_id in (
        select n.notification_id from notification n join post p using (post_id)
        where n.post_id = %(post_id)s and p.state = 'deleted' limit %(count)s)
    returning 1)
select count(*) from gone;
