-- GET /v1/{kind}/policies/{version}. Primary key.
select version, state, author, (extract(epoch from created_at) * 1000000)::bigint, body
from policy_version where kind = %(kind)s and version = %(version)s
