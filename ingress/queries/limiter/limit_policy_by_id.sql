-- GET /v1/policies/{id}: what is in force. Served by the primary key; the caller compares the publisher.
select policy_id, publisher, body, version, active_version, (extract(epoch from created_at) * 1000000)::bigint,
       (extract(epoch from updated_at) * 1000000)::bigint
from policy
where policy_id = %(id)s
