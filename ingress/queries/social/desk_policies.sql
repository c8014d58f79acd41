-- By which versions of the policy was decided of late, the last one first. Served by moderation_decision_newest.
select policy_version
from (select policy_version, created_at from moderation_decision
      order by created_at desc, decision_id desc limit %(limit)s::int) as newest
group by policy_version order by max(created_at) desc
