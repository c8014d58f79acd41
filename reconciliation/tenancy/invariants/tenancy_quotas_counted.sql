-- id: tenancy_quotas_counted
-- title: What a tenant's hard quota counts is how many of its resources live
-- severity: critical
-- owner: tenancy owner
-- source: postgres
select tenant_id, coalesce(q.used, 0) as used, coalesce(h.live, 0) as live
from (select tenant_id, used from quota_usage where dimension = 'resources') q
full join (select tenant_id, count(*) as live from resource_head where not deleted group by tenant_id) h using (tenant_id)
where coalesce(q.used, 0) <> coalesce(h.live, 0)
