-- The media of an object, for its case, whoever may see its post: what became of them, and whether this moderator may look.
-- Only what was scanned clean has renditions. None of an erased user. Primary keys, and those of moderation_judges.
with named as (
    select %(id)s::text as media_id, 0 as place
    union all
    select t.media_id, t.place::int from post p cross join lateral unnest(p.media_ids) with ordinality as t (media_id, place)
    where p.post_id = %(id)s::text),
judging as (select moderation_judges(%(moderator)s::text, %(id)s::text) as is_ones_own)
select m.media_id, m.mime, m.scan_state, m.scan_state = 'ready' as is_ready,
       m.scan_state = 'ready' and j.is_ones_own as may_look, m.manifest,
       extract(epoch from clock_timestamp())::float8 as now_s
from named n join media m using (media_id) join author o on o.user_id = m.owner_id cross join judging j
where o.state not in ('deleting', 'deleted')
order by n.place, m.media_id
