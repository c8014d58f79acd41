-- id: social_followers
-- title: A user has as many followers as there are active edges to it
-- severity: critical
-- owner: social
-- source: postgres
select a.user_id as object, a.state as detail, a.followers, count(f.follower_id) as edges
from author a left join follow f on f.followee_id = a.user_id and f.state = 'active'
group by a.user_id having a.followers <> count(f.follower_id)
