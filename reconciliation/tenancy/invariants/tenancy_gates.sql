-- id: tenancy_gates
-- title: The gate of a tenant's store has its placement's generation, and is fenced while a move says so and no longer
-- severity: critical
-- owner: mover
-- source: postgres
select t.tenant_id, t.generation, g.generation as gate, g.access
from tenant t left join tenancy.gate g using (tenant_id)
left join tenant_migration m on m.tenant_id = t.tenant_id and m.state not in ('completed', 'aborted', 'rolled_back')
where t.state <> 'deleted'
  and (g.generation is distinct from t.generation or (g.access = 'fenced') is distinct from coalesce(m.fenced, false))
