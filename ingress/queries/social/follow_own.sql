-- One's own edge to a user who is there. Primary key.
select f.follower_id, f.followee_id, f.state, f.version, f.created_at, f.updated_at
from social_met(array[%(viewer)s::text], array[%(user_id)s::text]) m
join follow f on f.follower_id = m.user_id and f.followee_id = m.other_id
