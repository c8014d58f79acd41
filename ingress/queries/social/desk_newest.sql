-- The last decisions, and how far each has come, by who shows its object. Served by moderation_decision_newest.
select d.decision_id, d.object_id, d.decision, d.policy_version, d.moderator, d.created_at,
       coalesce(p.consumers, '[]') as consumers
from (select * from moderation_decision order by created_at desc, decision_id desc limit %(limit)s::int) d
left join lateral (
    select json_agg(json_build_object(
               'name', consumer, 'state', state, 'attempts', attempts, 'seen', seen,
               'took_ms', ((extract(epoch from verified_at) * 1000000)::bigint - d.created_at) / 1000) order by consumer) as consumers
    from moderation_propagation where decision_id = d.decision_id) p on true
order by d.created_at desc, d.decision_id desc
