-- DELETE /v1/webhook_endpoints/{id}: its secrets are gone, and nothing of it waits any more. Primary key.
with gone as (
    update merchant_webhook_endpoint set state = 'deleted', disabled_reason = null
    where id = %(id)s and merchant_id = %(merchant)s and state <> 'deleted'
    returning id
), forgotten as (
    delete from merchant_webhook_secret where endpoint_id in (select id from gone)
), ended as (
    update merchant_webhook_delivery set state = 'given_up', finished_at = now(), last_error = 'endpoint_deleted'
    where endpoint_id in (select id from gone) and state = 'waiting'
)
select id from gone
