-- id: social_counts
-- title: Likes and reposts of a post are as many as its counters say
-- severity: major
-- owner: social
-- source: postgres
select coalesce(r.post_id, c.post_id) as post, coalesce(r.kind, c.kind) as detail, coalesce(r.active, 0) as reactions,
       coalesce(c.active, 0) as counted
from (select post_id, kind, count(*) as active from reaction where state = 'active' group by post_id, kind) r
full join (select post_id, kind, sum(active) as active from reaction_count group by post_id, kind) c using (post_id, kind)
where coalesce(r.active, 0) <> coalesce(c.active, 0)
