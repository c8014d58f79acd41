-- The next notifications of a user below a place, and which of them still hold: who did it is there and not muted, what it
-- is about may be seen, and was not taken back. Served by notification_of_user.
select n.created_at, n.notification_id, n.kind, n.actor_id, n.post_id, n.decision_id,
       n.actor_id is null
       or (exists (select from social_met(array[n.user_id], array[n.actor_id]))
           and not exists (select from mute m where m.user_id = n.user_id and m.target_id = n.actor_id and m.state = 'active')
           and (n.post_id is null or exists (select from social_authorize(array[n.user_id], array[n.post_id])))
           and case n.kind
                   when 'like' then exists (select from reaction r where r.post_id = n.post_id and r.kind = 'like'
                                              and r.user_id = n.actor_id and r.state = 'active')
                   when 'repost' then exists (select from reaction r where r.post_id = n.post_id and r.kind = 'repost'
                                                and r.user_id = n.actor_id and r.state = 'active')
                   when 'follow' then exists (select from follow f where f.follower_id = n.actor_id
                                                and f.followee_id = n.user_id and f.state = 'active')
                   when 'follow_request' then exists (select from follow f where f.follower_id = n.actor_id
                                                        and f.followee_id = n.user_id and f.state = 'requested')
                   else true
               end)
from notification n
where n.user_id = %(viewer)s::text and (n.created_at, n.notification_id) < (%(at)s::bigint, %(id)s::text)
order by n.created_at desc, n.notification_id desc limit %(count)s::int
