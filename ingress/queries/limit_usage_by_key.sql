-- GET /v1/usage/{key}: what the stream counted. Served by the primary key.
select policy_id, policy_version, allowed, denied, allowed_cost, (extract(epoch from as_of) * 1000000)::bigint
from limit_usage
where limit_key = %(key)s
