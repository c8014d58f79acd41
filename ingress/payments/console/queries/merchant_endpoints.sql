-- Where a merchant is told. Served by merchant_webhook_endpoint_age.
select e.id, e.url, e.state, e.disabled_reason, e.last_success_at, e.created_at
from merchant_webhook_endpoint e where e.merchant_id = %(id)s and e.state <> 'deleted'
order by e.created_at, e.id limit %(limit)s
