-- GET /v1/{kind}/policies: the versions below one, newest first. Primary key.
select version, state, author, (extract(epoch from created_at) * 1000000)::bigint, body
from policy_version where kind = %(kind)s and version < %(below)s order by version desc limit %(limit)s
