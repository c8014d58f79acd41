-- GET /v1/tenants/{tenant_id}/keys: the versions of a tenant's key, and how far its rows are sealed anew: no further once
-- they are destroyed. Primary keys.
select k.key_version, k.state, k.retired_at, r.key_version, r.looked_at, r.resealed, coalesce(q.used, 0), r.updated_at, r.finished_at
from tenant_key k
left join tenant_reseal r on r.tenant_id = k.tenant_id and k.state <> 'destroyed'
left join quota_usage q on q.tenant_id = k.tenant_id and q.dimension = 'resources'
where k.tenant_id = %(tenant_id)s order by k.key_version
