-- Who brings a post home to a reader that does not follow its author: of those it follows, hears, and who repost the post, the
-- first. A function, so the statement of a home sets it up for the posts that need it alone: it was a fifth of its time.

-- Null where there is nobody. The lists of who is followed and of who reposts are walked in step, so the shorter one bounds how
-- far. Served by follow_pkey and reaction_reposted.
create function social_reposter(reader text, reposted text) returns text
language sql stable parallel safe
begin atomic
    with recursive walk (user_id, is_both) as (
        select ''::text collate "C", false
        union all
        select r.user_id, r.user_id = f.followee_id from walk w
        cross join lateral (
            select o.followee_id from follow o
            where o.follower_id = reader and o.state = 'active'
              and o.followee_id >= w.user_id and (o.followee_id > w.user_id or not w.is_both)
            order by o.followee_id limit 1) f
        cross join lateral (
            select o.user_id from reaction o
            where o.post_id = reposted and o.kind = 'repost' and o.state = 'active' and o.user_id >= f.followee_id
            order by o.user_id limit 1) r)
    select r.user_id from walk
    join reaction r on r.post_id = reposted and r.kind = 'repost' and r.user_id = walk.user_id
    join author a on a.user_id = r.user_id and a.state = 'active'
    where walk.is_both
      and not exists (select from mute m where m.user_id = reader and m.target_id = r.user_id and m.state = 'active')
    order by r.updated_at, r.user_id limit 1;
end;
