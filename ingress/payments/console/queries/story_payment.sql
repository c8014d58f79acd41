-- The payment of a story, as it is now. Primary key.
select p.id, p.merchant_id, p.amount, p.currency, p.state, p.version, p.capture_method, p.payment_method, p.processor,
       p.amount_capturable, p.amount_received, p.amount_refunded, p.amount_disputed, p.last_payment_error,
       p.cancellation_reason, p.latest_attempt, p.metadata, p.partition, p.created_at, p.updated_at, p.next_action,
       p.authorized_until
from payment_intent p where p.id = %(id)s
