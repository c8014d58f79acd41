-- The stored results of many identities at once (idempotency fast path, and the truth behind a lost reply).
-- Served by the primary keys of idempotency, and of outbox for answers that are rendered from their events; dead letters
-- by dead_letter_request, for what was parked instead. Where a command lies is told as Kafka counts in the topic of now.
select w.n, i.request_hash, i.response, i.status, i.partition, i."offset" - coalesce(p.offset_base, 0) as "offset", o.payload as event
from unnest(%(ns)s::int[], %(merchants)s::text[], %(keys)s::text[]) as w (n, merchant_id, key)
join idempotency i on i.merchant_id = w.merchant_id and i.key = w.key
left join partition_owner p on p.topic = i.topic and p.partition = i.partition
left join outbox o on o.topic = replace(i.topic, 'commands.', 'events.') and o.partition = i.partition
    and o.seq = answer_event_seq(i.response, i.event_id)
