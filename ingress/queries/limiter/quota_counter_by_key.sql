-- GET /v1/usage/{key}: what an owner has counted. Served by the primary key.
select body, (extract(epoch from clock_timestamp()) * 1000000)::bigint
from quota_counter
where aggregate_key = %(aggregate_key)s and policy_id = %(policy_id)s and counted_by = %(counted_by)s
