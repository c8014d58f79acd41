-- The account of a merchant, of a story. Primary key.
select a.id, a.merchant_id, a.state, a.frozen_reason, a.version, a.partition, a.created_at, a.updated_at
from merchant_account a where a.id = %(id)s
