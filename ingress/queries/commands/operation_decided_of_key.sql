-- GET /v1/operations/{request_id}: the decision of this caller's identity, whichever of its requests got it.
-- Served by the primary key of idempotency.
select i.request_hash, i.status, i.response, i.operation, o.payload as event
from idempotency i
left join outbox o on o.topic = replace(i.topic, 'commands.', 'events.') and o.partition = i.partition
    and o.seq = answer_event_seq(i.response, i.event_id)
where i.merchant_id = %(merchant)s and i.key = %(key)s
