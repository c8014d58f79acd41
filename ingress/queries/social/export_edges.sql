-- Edges that are the user's own: whom it follows, blocks and mutes. Primary keys.
select e.kind || ':' || e.target_id, json_build_object('object', e.kind, 'user_id', e.target_id, 'state', e.state)::text
from (select 'follow' as kind, followee_id as target_id, state from follow where follower_id = %(user_id)s::text
      union all select 'block', target_id, state from block where user_id = %(user_id)s::text
      union all select 'mute', target_id, state from mute where user_id = %(user_id)s::text) e
where e.state <> 'removed' and e.kind || ':' || e.target_id > %(after)s::text
order by e.kind || ':' || e.target_id limit %(limit)s::int
