-- Whom a user blocks and mutes, by id. Primary keys.
select e.kind, e.target_id
from (select 'block' as kind, target_id, state from block where user_id = %(viewer)s::text
      union all select 'mute', target_id, state from mute where user_id = %(viewer)s::text) e
where e.state = 'active' order by e.target_id, e.kind limit %(limit)s::int
