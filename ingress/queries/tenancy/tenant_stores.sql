-- GET /v1/placements: the stores of tenants' rows, a few, with how many moves drain each. Served by tenant_migration_one_open.
select s.store, s.mode, s.is_made, s.tenants_max, s.bytes_max, s.tenants, s.bytes, s.standing,
       (extract(epoch from s.measured_at) * 1000000)::bigint, coalesce(m.moving, 0), coalesce(m.soaking, 0)
from tenant_store s
left join (select drained_from, count(tenant_id) filter (where state <> 'soaking') as moving,
                  count(tenant_id) filter (where state = 'soaking') as soaking
           from tenant_migration where state not in ('completed', 'aborted', 'rolled_back') group by drained_from) m
     on m.drained_from = s.store
order by s.mode desc, s.store
