-- After a change of a key: the key as it is now. Primary key.
select id, merchant_id, public_key, description, created_by, (extract(epoch from created_at) * 1000000)::bigint,
       revoked_by, (extract(epoch from revoked_at) * 1000000)::bigint
from merchant_signing_key where id = %(id)s and merchant_id = %(merchant)s
