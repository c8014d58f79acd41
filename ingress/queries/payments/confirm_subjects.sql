-- What a confirm is about, for its risk signals: only the caller's own. Primary key.
select i.id, i.amount, i.currency, i.payment_method from payment_intent i
where i.id = any (%(ids)s::text[]) and i.merchant_id = %(merchant)s
