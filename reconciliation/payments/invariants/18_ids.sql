-- id: ids
-- title: Every object has an id that its route reads
-- severity: major
-- owner: owner
-- source: postgres
-- Only a producer outside could have written another one, before owners refused it: it is listed, and a 404 for ever.
select 'payment_intent' as kind, id, merchant_id from payment_intent where id !~ '^[A-Za-z0-9_]{1,64}$'
union all
select 'refund', id, merchant_id from refund where id !~ '^[A-Za-z0-9_]{1,64}$'
union all
select 'dispute', id, merchant_id from dispute where id !~ '^[A-Za-z0-9_]{1,64}$'
union all
select 'payout', id, merchant_id from payout where id !~ '^[A-Za-z0-9_]{1,64}$'
