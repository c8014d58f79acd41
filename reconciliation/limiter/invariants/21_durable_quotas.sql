-- id: durable_quotas
-- title: Every durable counter holds what was consumed and not refunded since its base, each identity once
-- severity: critical
-- owner: limiter
-- source: comparison
-- One row for each counter and charge of it, in the order of the counters; a charge of no counter was pruned with it.
select c.aggregate_key, c.policy_id, c.counted_by, c.used, c.body, h.identity, h.cost, h.charged_at, h.version,
       h.refunded_version, h.refunded_at, q.version as tenant_version
from quota_counter c
left join quota_tenant q using (aggregate_key)
left join (
    select h.*, l.policy_id as policy_charged, l.values_charged
    from quota_charge h cross join lateral unnest(h.policy_ids, h.counted_by) as l (policy_id, values_charged)
) h on h.aggregate_key = c.aggregate_key and h.policy_charged = c.policy_id and h.values_charged = c.counted_by
   and coalesce(h.refunded_version, h.version) > c.base_version
order by c.aggregate_key, c.policy_id, c.counted_by
