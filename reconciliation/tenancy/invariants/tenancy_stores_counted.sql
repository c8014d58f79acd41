-- id: tenancy_stores_counted
-- title: A store counts the tenants that it serves, and the other side of every open move
-- severity: major
-- owner: tenancy owner
-- source: postgres
select s.store, s.tenants, count(h.placement_id) as held
from tenant_store s
left join (
    select placement_id from tenant where state <> 'deleted'
    union all
    select case m.target when t.placement_id then m.source else m.target end
    from tenant_migration m join tenant t using (tenant_id)
    where m.state not in ('completed', 'aborted', 'rolled_back')) h on tenant_store_of(h.placement_id) = s.store
group by s.store, s.tenants
having s.tenants <> count(h.placement_id)
