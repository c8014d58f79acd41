-- id: social_erased
-- title: Nothing is left of an erased user, each has its certificate, and every erasure ends within ten minutes
-- severity: critical
-- owner: social_eraser
-- source: postgres
select a.user_id as object, 'state' as detail, e.state, a.state as user_state
from author a full join erasure e using (user_id)
where (a.state in ('deleting', 'deleted')) <> (e.user_id is not null)
   or (a.state = 'deleted') <> (e.state is not distinct from 'complete')
   or (e.state = 'running' and to_timestamp(e.created_at / 1e6) < now() - interval '10 minutes')
union all
select e.user_id, 'something is left', left_over.what, null
from erasure e cross join lateral (
    select 'post' as what from post p where p.author_id = e.user_id and p.state <> 'deleted'
    union all select 'medium' from media_access m where m.owner_id = e.user_id and m.is_served
    union all select 'edge' from follow f where e.user_id in (f.follower_id, f.followee_id) and f.state <> 'removed'
    union all select 'reaction' from reaction r where r.user_id = e.user_id and r.state = 'active'
    union all select 'notification' from notification n where e.user_id in (n.user_id, n.actor_id)
    union all select 'key' from author_key k where k.user_id = e.user_id and k.key is not null
    union all select 'name' from author a where a.user_id = e.user_id and a.display_name <> '') as left_over
where e.state = 'complete'
union all
select e.user_id, 'something is left', 'what fan-out put off', null
from (select unnest(w.homes || w.user_id || w.target_id) as user_id from fanout_waiting w) named join erasure e using (user_id)
where e.state = 'complete'
