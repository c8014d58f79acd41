-- The moves of a tenant, newest first, or one of them. Primary key.
select m.*, s.mode as source_mode, t.mode as target_mode,
       timestamptz 'epoch' + m.created_at * interval '1 microsecond' as began_at,
       timestamptz 'epoch' + m.updated_at * interval '1 microsecond' as looked_at,
       timestamptz 'epoch' + m.soaks_until * interval '1 microsecond' as soaks_until_at
from tenant_migration m
left join placement s on s.placement_id = m.source
left join placement t on t.placement_id = m.target
where m.tenant_id = %(tenant)s and (%(migration)s::text is null or m.migration_id = %(migration)s)
order by m.created_at desc limit %(limit)s
