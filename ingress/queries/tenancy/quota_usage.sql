-- What a tenant uses of its hard quotas. Primary key.
select dimension, used from quota_usage where tenant_id = %(tenant_id)s::text order by dimension
