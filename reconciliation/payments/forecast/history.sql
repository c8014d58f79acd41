-- What operators forecast policies from.

-- name: decided
-- Which of these records decided, and how: a retry's record lies in the topic too, and is not the one that the identity
-- points at. Primary keys.
select i.partition, i."offset", i.response, o.payload
from unnest(%(scopes)s::text[], %(keys)s::text[], %(partitions)s::int[], %(offsets)s::bigint[])
         as w (scope, key, partition, "offset")
join idempotency i on i.merchant_id = w.scope and i.key = w.key and i.partition = w.partition and i."offset" = w."offset"
left join outbox o on o.topic = replace(i.topic, 'commands.', 'events.') and o.partition = i.partition
    and o.seq = answer_event_seq(i.response, i.event_id)
where i.status = 'committed';
