-- id: tenancy_billing_periods
-- title: No two billing runs of a tenant overlap, and each has one invoice at most
-- severity: critical
-- owner: whoever changed billing
-- source: postgres
select a.tenant_id, a.billing_run_id, b.billing_run_id as other, 'overlap' as reason
from billing_run a join billing_run b on b.tenant_id = a.tenant_id and b.number > a.number
where a.period_from < b.period_to and b.period_from < a.period_to
union all
select r.tenant_id, r.billing_run_id, i.invoice_id, 'the invoice has another name'
from tenant_invoice i join billing_run r on r.tenant_id = i.tenant_id and r.number = i.run_number
where i.invoice_id <> r.invoice_id
