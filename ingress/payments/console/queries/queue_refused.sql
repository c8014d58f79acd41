-- Facts about money that an owner refused, newest first; a stale fact changes nothing and is none. Served by
-- idempotency_refused_fact.
select x.merchant_id, x.key, x.operation, x.aggregate_key, x.request_id, x.answer ->> 'code' as code,
       x.answer ->> 'detail' as detail, x.created_at as at
from (select i.merchant_id, i.key, i.operation, i.aggregate_key, i.request_id, i.created_at,
             convert_from(i.response, 'UTF8')::jsonb as answer
      from idempotency i where i.status = 'refused' and starts_with(i.merchant_id, 'processor:')
      order by i.created_at desc limit %(refused)s) x
where x.answer ->> 'code' <> 'stale_fact' limit %(limit)s
