-- id: social_known
-- title: Posts, edges and reactions are of users who are known
-- severity: critical
-- owner: social
-- source: postgres
select e.user_id as object, e.what as detail
from (select follower_id as user_id, 'follow' as what from follow union all select followee_id, 'follow' from follow
      union all select user_id, 'block' from block union all select target_id, 'block' from block
      union all select user_id, 'mute' from mute union all select target_id, 'mute' from mute
      union all select user_id, kind from reaction union all select user_id, 'notification' from notification) as e
left join author a on a.user_id = e.user_id
where a.user_id is null
