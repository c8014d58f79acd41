-- POST /v1/webhook_deliveries/{id}/resend: the delivery, when its endpoint is the caller's, and the endpoint's state.
select d.id, d.endpoint_id, d.event_id, d.aggregate_key, d.operation, d.state, d.tries, d.last_status, d.last_error,
       (extract(epoch from d.next_at) * 1000000)::bigint, (extract(epoch from d.created_at) * 1000000)::bigint,
       (extract(epoch from d.finished_at) * 1000000)::bigint, e.state
from merchant_webhook_delivery d join merchant_webhook_endpoint e on e.id = d.endpoint_id
where d.id = %(id)s and e.merchant_id = %(merchant)s and e.state <> 'deleted'
