-- The next posts behind a place that fan-out brings of the followed, and what they repost: what a home that is not in the store
-- has, and what is older than what the store keeps of it. What they keep to themselves, and what readers pull, takes no place.
-- Served by post_pushed and reaction_reposted.
select created_at, post_id from (
    select c.created_at, c.post_id from follow f
    cross join lateral (
        select o.created_at, o.post_id from post o
        where o.author_id = f.followee_id and o.state = 'published' and o.is_pushed and o.visibility <> 'private'
          and (o.created_at, o.post_id) < (%(at)s::bigint, %(id)s::text)
        order by o.created_at desc, o.post_id desc limit %(count)s::int) c
    where f.follower_id = %(viewer)s::text and f.state = 'active'
    union
    select p.created_at, p.post_id from follow f
    cross join lateral (
        select o.post_id from reaction o
        where o.user_id = f.followee_id and o.kind = 'repost' and o.state = 'active' and o.is_pushed
          and (o.post_at, o.post_id) < (%(at)s::bigint, %(id)s::text)
        order by o.post_at desc, o.post_id desc limit %(count)s::int) r
    join post p on p.post_id = r.post_id and p.state = 'published'
    where f.follower_id = %(viewer)s::text and f.state = 'active') as found
order by created_at desc, post_id desc limit %(count)s::int
