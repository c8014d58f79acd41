-- id: tenancy_keys
-- title: A tenant that lives has one active key, or none that opens anything
-- severity: critical
-- owner: tenancy owner
-- source: postgres
select t.tenant_id, count(*) filter (where k.state = 'active') as active, count(k.wrapped) as wrapped
from tenant t left join tenant_key k using (tenant_id)
group by t.tenant_id, t.state
having (t.state <> 'deleted' and not (count(*) filter (where k.state = 'active') = 1 or (count(*) > 0 and count(k.wrapped) = 0)))
    or (t.state = 'deleted' and count(k.wrapped) > 0)
