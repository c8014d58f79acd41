-- GET /v1/webhook_endpoints/{id}/deliveries: newest first, after a place in that order. The endpoint is the caller's, which
-- is asked before. Served by merchant_webhook_delivery_age.
select id, endpoint_id, event_id, aggregate_key, operation, state, tries, last_status, last_error,
       (extract(epoch from next_at) * 1000000)::bigint, (extract(epoch from created_at) * 1000000)::bigint,
       (extract(epoch from finished_at) * 1000000)::bigint
from merchant_webhook_delivery
where endpoint_id = %(endpoint)s and %(merchant)s::text is not null
  and (created_at, id) < (timestamptz 'epoch' + %(created_at)s::bigint * interval '1 microsecond', %(id)s::text)
order by created_at desc, id desc
limit %(limit)s
