-- POST /v1/webhook_endpoints/{id}/enable: a disabled endpoint is sent to again, from now on. Primary key.
update merchant_webhook_endpoint set state = 'unverified', disabled_reason = null
where id = %(id)s and merchant_id = %(merchant)s and state = 'disabled'
