-- GET /v1/operations/{request_id}: the newest decision of this caller under that id. Served by idempotency_request.
select i.status, i.response, i.operation, o.payload as event
from idempotency i
left join outbox o on o.topic = replace(i.topic, 'commands.', 'events.') and o.partition = i.partition
    and o.seq = answer_event_seq(i.response, i.event_id)
where i.request_id = %(request_id)s and i.merchant_id = %(merchant)s
order by i.created_at desc
limit 1
