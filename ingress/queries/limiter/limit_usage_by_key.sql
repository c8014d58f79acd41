-- GET /v1/usage/{key}: what the stream counted, and gave back. Served by the primary keys.
select policy_id, policy_version, allowed, denied, allowed_cost, (extract(epoch from as_of) * 1000000)::bigint,
       coalesce(r.refunded, 0), coalesce(r.refunded_cost, 0)
from limit_usage u
left join (select refunded, refunded_cost from limit_usage_refund where limit_key = %(hash)s) r on true
where u.key_digest = limit_key_digest(%(key)s)
