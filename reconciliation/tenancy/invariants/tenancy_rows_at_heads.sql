-- id: tenancy_rows_at_heads
-- title: A tenant's rows in a pool are as its heads say: of that version, deleted or not, none missing and none over
-- severity: critical
-- owner: tenancy owner
-- source: postgres
select tenant_id, resource_id, h.version as head, r.version as row_version
from (
    select h.* from resource_head h join tenant t using (tenant_id) join placement p using (placement_id) where p.mode = 'pooled'
) h
full join (
    select r.* from tenant_pooled_rows() r
    where not exists (  -- the other side of an open move is on its way
        select from tenant_migration m join tenant t using (tenant_id)
        where m.tenant_id = r.tenant_id and m.state not in ('completed', 'aborted', 'rolled_back')
          and t.placement_id not in (select placement_id from placement where mode = 'pooled'))
) r using (tenant_id, resource_id)
where h.version is distinct from r.version or h.deleted is distinct from r.deleted
