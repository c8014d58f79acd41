-- GET /v1/webhook_endpoints: newest first, after a place in that order. Served by merchant_webhook_endpoint_age.
select id, merchant_id, url, events, description, state, disabled_reason,
       (extract(epoch from created_at) * 1000000)::bigint, (extract(epoch from verified_at) * 1000000)::bigint,
       (extract(epoch from last_success_at) * 1000000)::bigint
from merchant_webhook_endpoint
where merchant_id = %(merchant)s and state <> 'deleted'
  and (created_at, id) < (timestamptz 'epoch' + %(created_at)s::bigint * interval '1 microsecond', %(id)s::text)
order by created_at desc, id desc
limit %(limit)s
