-- id: tenancy_sealed
-- title: What is sealed for a tenant names its purpose and a version of the tenant's key, so a shred ends all of it
-- severity: critical
-- owner: ingress and tenancy mover
-- source: postgres
-- The first byte is the purpose (0: of what was sealed before there were any; -1: nothing is sealed so short), the next seven are
-- the version of the key. Rows of dedicated databases are not here; they were sealed by the same processes.
select s.tenant_id, s.store, s.place, s.purpose, s.key_version
from (
    select tenant_id, store, place, expected, case when length(head) = 8 then get_byte(head, 0) else -1 end as purpose,
           ('x' || rpad(encode(substring(head from 2), 'hex'), 14, '0'))::bit(56)::bigint as key_version
    from (
        select tenant_id, 'tenancy_pool' as store, resource_id as place, 1 as expected, substring(payload from 1 for 8) as head
        from tenancy_pool.resource where not deleted
        union all
        select tenant_id, 'resource_feed', resource_id, 1, substring(payload from 1 for 8) from resource_feed where not deleted
        union all
        select tenant_id, 'tenant_export_part', export_id || ':' || part, 2, substring(sealed from 1 for 8) from tenant_export_part
    ) h
) s
left join tenant_key k on k.tenant_id = s.tenant_id and k.key_version = s.key_version
where k.tenant_id is null or s.purpose not in (0, s.expected)
