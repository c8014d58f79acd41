-- id: tenancy_fences_end
-- title: A fence ends with its time, or its mover does not work: start it (tenancy_mover), and it gives the fence up or goes on
-- severity: major
-- owner: mover
-- source: postgres
select tenant_id, migration_id, state, to_timestamp(fence_until / 1e6) as fence_until
from tenant_migration
where fenced and fence_until < (extract(epoch from clock_timestamp()) * 1000000)::bigint - 60 * 1000000
