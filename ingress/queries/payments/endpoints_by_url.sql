-- POST /v1/webhook_endpoints when its URL is taken: whose it is says the caller. Index merchant_webhook_endpoint_url.
select id, merchant_id, url, events, description, state, disabled_reason,
       (extract(epoch from created_at) * 1000000)::bigint, (extract(epoch from verified_at) * 1000000)::bigint,
       (extract(epoch from last_success_at) * 1000000)::bigint
from merchant_webhook_endpoint
where merchant_id = %(merchant)s and url = %(url)s and state <> 'deleted'
