-- What the merchant was told: its endpoints (merchant_webhook_endpoint_age, or by its primary key when deleted) times the
-- events of the story (primary key of deliveries).
select d.id, d.endpoint_id, n.url, d.event_id, d.operation, d.state, d.tries, d.last_status, d.last_error, d.next_at,
       d.created_at, d.finished_at
from merchant_webhook_endpoint n
cross join lateral unnest(%(events)s::text[]) as told (event_id)
join merchant_webhook_delivery d on d.endpoint_id = n.id and d.event_id = told.event_id
where n.merchant_id = %(merchant)s and n.state <> 'deleted'
order by d.created_at limit %(limit)s
