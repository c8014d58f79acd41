-- What a user has towards another one. Primary keys.
select coalesce((select f.state from follow f
                 where f.follower_id = %(viewer)s::text and f.followee_id = %(user_id)s::text), 'removed') as follow,
       exists (select from mute m where m.user_id = %(viewer)s::text and m.target_id = %(user_id)s::text
                 and m.state = 'active') as is_muted,
       exists (select from block b where b.user_id = %(viewer)s::text and b.target_id = %(user_id)s::text
                 and b.state = 'active') as is_blocked
