-- The views of 0008 with what policies in shadow mode would have refused.

-- Per minute, tenant, policy and route: exact sums, and what the kept rows say (rows, weight).
create or replace view limit_usage_by_minute as
select minute, tenant, policy_id, route,
       sum(r.allowed) as allowed, sum(r.denied) as denied, sum(r.repeated) as repeated, sum(r.degraded) as degraded,
       sum(r.allowed_cost) as allowed_cost, sum(r.denied_cost) as denied_cost, sum(r.rows) as rows, sum(r.weight) as weight,
       sum(r.refused_in_shadow) as refused_in_shadow
from limit_decisions_by_minute as r final
group by minute, tenant, policy_id, route;

-- The same by key.
create or replace view limit_usage_by_key as
select minute, key_hash, tenant, policy_id, route,
       sum(r.allowed) as allowed, sum(r.denied) as denied, sum(r.repeated) as repeated, sum(r.degraded) as degraded,
       sum(r.allowed_cost) as allowed_cost, sum(r.denied_cost) as denied_cost, sum(r.rows) as rows, sum(r.weight) as weight,
       sum(r.refused_in_shadow) as refused_in_shadow
from limit_keys_by_minute as r final
group by minute, key_hash, tenant, policy_id, route;
