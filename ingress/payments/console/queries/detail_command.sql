-- The answer that a command's caller got, and the event that it is rendered from. Primary keys.
select i.merchant_id, i.key, i.operation, i.status, i.request_id, i.event_id, i.partition, i."offset",
       encode(i.request_hash, 'hex') as request_hash, i.response, o.payload as event
from idempotency i
left join outbox o on o.topic = replace(i.topic, 'commands.', 'events.') and o.partition = i.partition
    and o.seq = answer_event_seq(i.response, i.event_id)
where i.merchant_id = %(scope)s and i.key = %(key)s
