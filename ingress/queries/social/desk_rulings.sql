-- All decisions about an object, the last first, each with the appeal against it. Served by (object_id, version).
select d.decision_id, d.decision, d.reason, d.policy_version, d.label, d.expires_at, d.moderator, d.version, d.created_at,
       d.object_version, d.beside,
       exists (select from moderation_current c where c.object_id = d.object_id and c.decision_id = d.decision_id)
           or exists (select from moderation_label l where l.object_id = d.object_id and l.decision_id = d.decision_id) as is_in_force,
       a.appeal_id, a.state as appeal_state
from moderation_decision d left join moderation_appeal a using (decision_id)
where d.object_id = %(id)s::text order by d.version desc limit %(limit)s::int
