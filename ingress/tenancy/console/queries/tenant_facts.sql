-- One tenant, where it is, and whether it moves. Primary keys.
select t.tenant_id, t.name, t.tier, t.state, t.suspension, t.reason, t.timezone, t.home_currency, t.quotas, t.prices,
       t.generation, t.policy_version, t.version, p.placement_id, p.mode, p.region, m.state as moving,
       timestamptz 'epoch' + t.created_at * interval '1 microsecond' as created_at,
       k.key_version, k.state as key_state, r.looked_at, r.resealed, r.finished_at is not null as is_resealed
from tenant t join placement p on p.placement_id = t.placement_id
left join tenant_migration m on m.tenant_id = t.tenant_id and m.state not in ('completed', 'aborted', 'rolled_back')
left join lateral (select key_version, state from tenant_key x where x.tenant_id = t.tenant_id order by key_version desc limit 1) k on true
left join tenant_reseal r on r.tenant_id = t.tenant_id and k.state <> 'destroyed'
where t.tenant_id = %(tenant)s
