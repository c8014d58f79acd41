-- GET /v1/signature_requirement: at most one row. Primary key.
select requirement, changed_by, (extract(epoch from changed_at) * 1000000)::bigint
from merchant_signature_requirement where merchant_id = %(merchant)s
