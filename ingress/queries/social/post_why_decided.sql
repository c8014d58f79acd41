-- What was decided about the viewer's own post, its media and the viewer, and what came of an appeal. Primary keys.
select d.object_id, d.decision, d.decision_id, o.state as appeal
from post p
cross join lateral unnest(array[p.post_id, p.author_id] || p.media_ids) as about (object_id)
join moderation_current m on m.object_id = about.object_id and m.effect <> 'none'
join moderation_decision d on d.decision_id = m.decision_id
left join moderation_appeal o on o.decision_id = d.decision_id
where p.post_id = %(id)s::text and p.author_id = %(viewer)s::text
order by d.created_at, d.decision_id
