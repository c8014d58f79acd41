-- The other side of a move that verifies. Primary key, by its first column: a tenant has few moves.
select m.migration_id, p.placement_id, p.mode, p.shard_or_database
from tenant_migration m join placement p on p.placement_id = m.target
where m.tenant_id = %(tenant_id)s::text and m.state in ('verifying', 'fencing')
