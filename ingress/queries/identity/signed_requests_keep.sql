-- Before a signed command is sent: the evidence and the identities that it stands for. Sent again, it is there already.
with kept as (
    insert into signed_request (id, merchant_id, key_id, base, signature, body)
    values (%(id)s, %(merchant)s, %(key_id)s, %(base)s, %(signature)s, %(body)s)
    on conflict (id) do nothing
)
insert into signed_command (merchant_id, idempotency_key, request_hash, signed_request_id)
select %(merchant)s, w.key, w.hash, %(id)s
from unnest(%(keys)s::text[], %(hashes)s::bytea[]) as w (key, hash)
on conflict do nothing
