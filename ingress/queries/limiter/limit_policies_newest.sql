-- GET /v1/policies: the caller's, newest first. Served by policy_of_publisher.
select policy_id, publisher, body, version, active_version, (extract(epoch from created_at) * 1000000)::bigint,
       (extract(epoch from updated_at) * 1000000)::bigint
from policy
where publisher = %(merchant)s
  and (created_at, policy_id) < (timestamptz 'epoch' + %(created_at)s::bigint * interval '1 microsecond', %(id)s::text)
order by created_at desc, policy_id desc
limit %(limit)s
