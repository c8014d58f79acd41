-- id: social_blocks
-- title: No edge is left, either way, between two users of whom one blocks the other
-- severity: critical
-- owner: social
-- source: postgres
select b.user_id as object, b.target_id as detail, f.follower_id, f.followee_id, f.state
from block b
join follow f on (f.follower_id, f.followee_id) in ((b.user_id, b.target_id), (b.target_id, b.user_id))
where b.state = 'active' and f.state <> 'removed'
