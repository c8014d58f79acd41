-- What a decision has to reach. Primary key.
select consumer, state, attempts, (extract(epoch from verified_at) * 1000000)::bigint
from moderation_propagation where decision_id = %(id)s::text order by consumer
