-- The next who ask to follow, newest first. Served by follow_requests.
select f.updated_at, f.follower_id,
       exists (select from social_met(array[%(viewer)s::text], array[f.follower_id])),
       f.follower_id, f.followee_id, f.state, f.version, f.created_at, f.updated_at
from follow f
where f.followee_id = %(viewer)s::text and f.state = 'requested'
  and (f.updated_at, f.follower_id) < (%(at)s::bigint, %(id)s::text)
order by f.updated_at desc, f.follower_id desc limit %(count)s::int
