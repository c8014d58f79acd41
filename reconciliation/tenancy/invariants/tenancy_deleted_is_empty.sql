-- id: tenancy_deleted_is_empty
-- title: Of a deleted tenant nothing is left but its row, its moves and its certificate
-- severity: critical
-- owner: mover
-- source: postgres
select t.tenant_id, t.certificate_id
from tenant t
where t.state = 'deleted'
  and (exists (select from resource_head h where h.tenant_id = t.tenant_id)
    or exists (select from resource_feed f where f.tenant_id = t.tenant_id)
    or exists (select from quota_usage q where q.tenant_id = t.tenant_id)
    or exists (select from tenant_export_part e where e.tenant_id = t.tenant_id)
    or t.tenant_id in (select r.tenant_id from tenant_pooled_rows() r)
    or not exists (
        select from tenant_certificate c where c.tenant_id = t.tenant_id and c.certificate_id = t.certificate_id))
