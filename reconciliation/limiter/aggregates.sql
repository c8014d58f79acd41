-- name: aggregate_version
-- Primary keys.
select version from policy where policy_id = %(aggregate_key)s
union all select version from quota_tenant where aggregate_key = %(aggregate_key)s;
