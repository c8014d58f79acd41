-- Before a signed call that has no idempotency key: no row means that this very request was carried out before.
insert into signed_request (id, merchant_id, key_id, base, signature, body)
values (%(id)s, %(merchant)s, %(key_id)s, %(base)s, %(signature)s, %(body)s)
on conflict (id) do nothing
returning id
