-- Every command that was decided on an aggregate, with what it said. Served by idempotency_of_aggregate
-- and primary keys.
select i.merchant_id, i.key, i.operation, i.status, i.request_id, i.event_id, i.partition, i."offset", i.created_at,
       case i.status when 'refused' then convert_from(i.response, 'UTF8')::jsonb ->> 'code' end as code, s.key_id as signed_by, s.id as signed_request
from idempotency i
left join signed_command c
    on c.merchant_id = i.merchant_id and c.idempotency_key = i.key and c.request_hash = i.request_hash
left join signed_request s on s.id = c.signed_request_id
where i.aggregate_key = %(id)s
order by i.created_at, i."offset" limit %(limit)s
