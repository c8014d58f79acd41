-- id: 8
-- title: No intent takes more than was asked for, or gives back more than it took
-- severity: critical
-- owner: payments
-- source: postgres
select id, amount, amount_received, amount_capturable, amount_refunded, amount_disputed
from payment_intent
where amount_received + amount_capturable > amount
   or amount_refunded + amount_disputed > amount_received
