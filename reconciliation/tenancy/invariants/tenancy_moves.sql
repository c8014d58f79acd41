-- id: tenancy_moves
-- title: A committed move leaves its tenant at the target, an aborted or rolled back one at the source, and no fence up
-- severity: critical
-- owner: mover
-- source: postgres
select m.tenant_id, m.migration_id, m.state, t.placement_id
from tenant_migration m join tenant t using (tenant_id)
where (m.state in ('completed', 'aborted', 'rolled_back') and m.fenced)
   or (m.state in ('committed', 'soaking') and t.placement_id <> m.target)
   or (m.state in ('planned', 'prepared', 'copying', 'catching_up', 'verifying', 'fencing') and t.placement_id <> m.source)
   or (m.to_generation is not null and m.to_generation > t.generation)
