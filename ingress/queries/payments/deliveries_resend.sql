-- POST /v1/webhook_deliveries/{id}/resend: one that is finished begins its schedule again, out of order; one that waits is
-- due now, or when the sender that may be at it has ended. Index on the id.
update merchant_webhook_delivery
set next_at = greatest(now(), case when state = 'waiting' then in_flight_until end),
    first_try_at = case when state = 'waiting' then first_try_at end,
    tries = case when state = 'waiting' then tries else 0 end,
    resent = resent or state <> 'waiting', state = 'waiting', finished_at = null, last_error = null
where id = %(id)s
