-- Whom a user blocks and mutes, by id; no mute of who is not there for it. Primary keys.
select e.kind, e.target_id
from (select 'block' as kind, target_id, state from block where user_id = %(viewer)s::text
      union all select 'mute', target_id, state from mute where user_id = %(viewer)s::text) e
where e.state = 'active'
  and (e.kind = 'block' or not exists (
      select from block b where b.state = 'active' and ((b.user_id = %(viewer)s::text and b.target_id = e.target_id)
                                                        or (b.user_id = e.target_id and b.target_id = %(viewer)s::text))))
order by e.target_id, e.kind limit %(limit)s::int
