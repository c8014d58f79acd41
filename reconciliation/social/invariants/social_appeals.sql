-- id: social_appeals
-- title: Nobody decided an appeal against an own decision, and one report of each user counts
-- severity: critical
-- owner: social
-- source: postgres
select p.appeal_id as object, p.state as detail, d.moderator, p.decided_by, null::bigint as counted, null::bigint as reports
from moderation_appeal p join moderation_decision d using (decision_id)
where p.decided_by = d.moderator or (p.state <> 'open') <> (p.decided_by is not null) or p.author_id <> d.author_id
union all
select c.object_id, c.state, null, null, c.reports, count(r.user_id)
from moderation_case c left join moderation_report r using (object_id)
group by c.object_id having c.reports <> count(r.user_id)
