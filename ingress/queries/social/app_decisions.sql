-- What was decided about a user and what is its own, newest first, with the appeal against each. Served by
-- moderation_decision_of_author.
select d.decision_id, d.object_id, d.decision, d.reason, d.created_at, a.state as appeal,
       exists (select from moderation_current m where m.decision_id = d.decision_id) as is_in_force
from moderation_decision d left join moderation_appeal a using (decision_id)
where d.author_id = %(user_id)s::text
order by d.created_at desc, d.decision_id limit %(limit)s::int
