-- GET /v1/usage/{key}: what policies in shadow mode would have refused. Primary key.
select policy_id, refused, (extract(epoch from as_of) * 1000000)::bigint
from limit_usage_shadow
where key_digest = limit_key_digest(%(key)s)
