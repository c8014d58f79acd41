-- GET /v1/signing_keys: newest first, after a place in that order. Served by merchant_signing_key_age.
select id, merchant_id, public_key, description, created_by, (extract(epoch from created_at) * 1000000)::bigint,
       revoked_by, (extract(epoch from revoked_at) * 1000000)::bigint
from merchant_signing_key
where merchant_id = %(merchant)s
  and (created_at, id) < (timestamptz 'epoch' + %(created_at)s::bigint * interval '1 microsecond', %(id)s::text)
order by created_at desc, id desc
limit %(limit)s
