-- What a tenant uses of its hard quotas. Primary key.
select dimension, used from quota_usage where tenant_id = %(tenant)s order by dimension limit %(limit)s
