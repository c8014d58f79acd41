-- GET /v1/webhook_endpoints/{id}, and after every change of one. Primary key.
select id, merchant_id, url, events, description, state, disabled_reason,
       (extract(epoch from created_at) * 1000000)::bigint, (extract(epoch from verified_at) * 1000000)::bigint,
       (extract(epoch from last_success_at) * 1000000)::bigint
from merchant_webhook_endpoint
where id = %(id)s and merchant_id = %(merchant)s and state <> 'deleted'
