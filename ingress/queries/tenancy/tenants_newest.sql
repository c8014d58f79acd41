-- GET /v1/tenants, newest first. Served by tenant_newest.
select t.tenant_id, t.name, t.tier, t.state, t.suspension, t.reason, t.timezone, t.home_currency, t.quotas, t.prices, t.placement_id,
       t.generation, t.key_ref, t.policy_version, t.version, t.certificate_id, t.created_at, t.updated_at,
       p.region, p.mode, p.shard_or_database
from tenant t join placement p on p.placement_id = t.placement_id
where (t.created_at, t.tenant_id) < (%(created_at)s::bigint, %(id)s::text)
order by t.created_at desc, t.tenant_id desc limit %(limit)s::int
