-- The other side of a move that verifies. Served by tenant_migration_one_open.
select m.migration_id, p.placement_id, p.mode, p.shard_or_database
from tenant_migration m join placement p on p.placement_id = m.target
where m.tenant_id = %(tenant_id)s::text and m.state in ('verifying', 'fencing')
