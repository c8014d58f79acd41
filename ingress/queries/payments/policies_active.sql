-- What is in force (every second): the body only of what is not known yet. policy_version_active.
select kind, version, case when version <> coalesce((%(known)s::jsonb ->> kind)::int, 0) then body end
from policy_version where state = 'active'
