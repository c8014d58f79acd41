-- The media of an object, for its case, whoever may see its post: those with pictures to look at, and what became of the
-- others. None of an erased user. Primary keys.
with named as (
    select %(id)s::text as media_id, 0 as place
    union all
    select t.media_id, t.place::int from post p cross join lateral unnest(p.media_ids) with ordinality as t (media_id, place)
    where p.post_id = %(id)s::text)
select m.media_id, m.mime, m.scan_state, m.scan_state = 'ready' as is_ready,
       extract(epoch from clock_timestamp())::bigint as now_s
from named n join media m using (media_id) join author o on o.user_id = m.owner_id
where o.state not in ('deleting', 'deleted')
order by n.place, m.media_id
