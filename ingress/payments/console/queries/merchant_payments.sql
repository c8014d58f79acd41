-- A merchant's newest payments, before a place. Served by payment_intent_of_merchant.
select p.id, p.amount, p.currency, p.state, p.processor, p.amount_received, p.amount_refunded, p.amount_disputed, p.created_at
from payment_intent p
where p.merchant_id = %(id)s and (p.created_at, p.id) < (coalesce(%(before)s::timestamptz, 'infinity'), coalesce(%(before_id)s, ''))
order by p.created_at desc, p.id desc limit %(limit)s
