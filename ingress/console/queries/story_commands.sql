-- Every command that was decided on an aggregate, with what it said. Served by idempotency_of_aggregate.
select i.merchant_id, i.key, i.operation, i.status, i.request_id, i.event_id, i.partition, i."offset", i.created_at,
       convert_from(i.response, 'UTF8')::jsonb ->> 'code' as code
from idempotency i where i.aggregate_key = %(id)s
order by i.created_at, i."offset" limit %(limit)s
