-- id: social_moderation
-- title: The last decision about an object is in force, decisions are gapless, each supersedes the one before, and it ends when it says
-- severity: critical
-- owner: social
-- source: postgres
with last as (
    select object_id, count(*) as decisions, max(version) as newest from moderation_decision group by object_id)
select coalesce(l.object_id, c.object_id) as object, c.effect as detail, c.epoch, l.newest, l.decisions
from last l full join moderation_current c using (object_id)
left join moderation_decision d on d.decision_id = c.decision_id
where l.object_id is null or c.object_id is null or c.epoch <> l.newest or l.decisions <> l.newest
   or d.object_id is distinct from c.object_id or d.decision is distinct from c.effect or d.version <> c.epoch
   or c.ends_at is distinct from decision_ends_at(d.expires_at)
union all
select d.object_id, d.decision, d.version, b.version, null
from moderation_decision d left join moderation_decision b on b.object_id = d.object_id and b.version = d.version - 1
where d.supersedes is distinct from b.decision_id
