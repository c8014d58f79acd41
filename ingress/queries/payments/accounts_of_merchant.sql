-- GET /v1/accounts/{merchant}. Unique index on merchant_id.
select id, merchant_id, state, frozen_reason, version, (extract(epoch from created_at) * 1000000)::bigint as created_at,
       (extract(epoch from updated_at) * 1000000)::bigint as updated_at
from merchant_account where merchant_id = %(merchant)s
