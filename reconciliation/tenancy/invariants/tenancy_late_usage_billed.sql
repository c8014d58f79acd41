-- id: tenancy_late_usage_billed
-- title: What came late for a billed period is on an invoice, a month before it is kept no longer: any further billing run takes it
-- severity: major
-- owner: finance
-- source: postgres
with newest as materialized (
    select distinct on (tenant_id) tenant_id, cut from tenant_invoice order by tenant_id, ordinal desc)
select b.tenant_id, b.billing_run_id, e.dimension, count(*) as events, sum(e.quantity) as quantity, min(e.occurred_at) as oldest
from newest n
join billing_run b on b.tenant_id = n.tenant_id and b.period_from < now() - interval '370 days'
join tenant_invoice i on i.tenant_id = b.tenant_id and i.run_number = b.number
cross join lateral jsonb_each_text(b.prices) as p (dimension, price)
join usage_event e on e.tenant_id = b.tenant_id and e.dimension = p.dimension and p.price !~ '^0([.]0+)?$'
    and e.occurred_at >= b.period_from and e.occurred_at < least(b.period_to, now() - interval '370 days')
    and e.seq > coalesce(n.cut[e.partition + 1], 0)
group by b.tenant_id, b.billing_run_id, e.dimension
union all -- an invoice of rule 1 passed over what had lost its price by then; a correction of that period settles it
select b.tenant_id, b.billing_run_id, e.dimension, count(*), sum(e.quantity), min(e.occurred_at)
from tenant_invoice i
join billing_run r on r.tenant_id = i.tenant_id and r.number = i.run_number
join tenant_invoice last on last.tenant_id = i.tenant_id and last.ordinal = i.ordinal - 1
join tenant_invoice earlier on earlier.tenant_id = i.tenant_id and earlier.ordinal < i.ordinal
join billing_run b on b.tenant_id = i.tenant_id and b.number = earlier.run_number
    and b.period_to > last.created_at - interval '45 days'
cross join lateral jsonb_each_text(b.prices) as p (dimension, price)
join usage_event e on e.tenant_id = i.tenant_id and e.dimension = p.dimension
    and e.occurred_at >= b.period_from and e.occurred_at < b.period_to
    and e.seq > coalesce(last.cut[e.partition + 1], 0) and e.seq <= coalesce(i.cut[e.partition + 1], 0)
where i.late_rule = 1 and not r.prices ? p.dimension and p.price !~ '^0([.]0+)?$'
  and not exists (select from billing_entry a
                  where a.tenant_id = b.tenant_id and a.dimension = p.dimension and a.period_from = b.period_from)
group by b.tenant_id, b.billing_run_id, e.dimension
