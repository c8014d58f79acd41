-- The newest tenants, or those from a name or id on. Served by tenant_newest; the name is looked for in the newest ones.
select t.tenant_id, t.name, t.tier, t.state, p.mode, t.generation, coalesce(q.used, 0) as resources,
       timestamptz 'epoch' + t.created_at * interval '1 microsecond' as created_at
from (select * from tenant order by created_at desc, tenant_id desc limit %(counted)s) t
join placement p on p.placement_id = t.placement_id
left join quota_usage q on q.tenant_id = t.tenant_id and q.dimension = 'resources'
where %(wanted)s::text is null or t.tenant_id = %(wanted)s or strpos(lower(t.name), lower(%(wanted)s)) > 0
order by t.created_at desc, t.tenant_id desc limit %(limit)s
