-- What the soak of tenants asks in the end.

-- name: drained_moves
-- Moves that drains of shared schemas began: those that came to their end, and those that did not yet. All moves are looked at.
select count(*) filter (where state = 'completed'),
       count(*) filter (where state not in ('completed', 'aborted', 'rolled_back'))
from tenant_migration where drained_from is not null;
