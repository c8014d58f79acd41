-- GET /v1/policies/{id}: its versions, newest first. Served by the primary key, from the right.
select version, body, (extract(epoch from published_at) * 1000000)::bigint
from limit_policy_version
where policy_id = %(id)s
order by version desc
limit %(limit)s
