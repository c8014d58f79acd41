-- id: social_moderation
-- title: What decisions leave in force is in force with their labels, decisions are gapless, each supersedes what it ends, in time
-- severity: critical
-- owner: social
-- source: postgres
with last as (
    select object_id, count(*) as decisions, max(version) as newest from moderation_decision group by object_id)
select coalesce(l.object_id, c.object_id) as object, c.effect as detail, c.epoch, l.newest, l.decisions
from last l full join moderation_current c using (object_id)
left join moderation_decision d on d.decision_id = c.decision_id
where l.object_id is null or c.object_id is null or c.epoch <> l.newest or l.decisions <> l.newest
   or d.object_id is distinct from c.object_id or d.decision is distinct from c.effect or d.version > c.epoch
   or c.ends_at is distinct from decision_ends_at(d.expires_at)
   -- what came later was beside it: it neither lifts what restricts, nor restricts without having been lifted since
   or exists (select from moderation_decision e
              where e.object_id = c.object_id and e.version > d.version
                and (e.beside is not true
                     or (e.decision = 'none' and e.label is null and c.effect in ('limit', 'remove'))
                     or (e.decision in ('limit', 'remove')
                         and not exists (select from moderation_decision f
                                         where f.object_id = e.object_id and f.version > e.version
                                           and f.decision = 'none' and f.label is null))))
   or (c.effect = 'label') <> exists (select from moderation_label m
                                      where m.object_id = c.object_id and m.decision_id = c.decision_id)
   or (c.effect = 'none' and exists (select from moderation_label m where m.object_id = c.object_id))
union all
select m.object_id, m.label, m.version, d.version, null
from moderation_label m left join moderation_decision d using (decision_id)
where d.decision is distinct from 'label' or d.object_id <> m.object_id or d.label <> m.label or d.version <> m.version
   or m.ends_at is distinct from decision_ends_at(d.expires_at)
union all
select d.object_id, d.decision, d.version, b.version, null
from moderation_decision d left join moderation_decision b on b.object_id = d.object_id and b.version = d.version - 1
where case when d.beside is true or b.beside is true
           then d.supersedes is not null
                and not exists (select from moderation_decision e
                                where e.decision_id = d.supersedes and e.object_id = d.object_id and e.version < d.version)
           else d.supersedes is distinct from b.decision_id end
