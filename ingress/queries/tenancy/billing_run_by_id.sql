-- GET /v1/tenants/{tenant_id}/billing_runs/{billing_run_id}: one of the tenant's. Its unique key, and the primary key of invoices.
select r.billing_run_id, r.invoice_id, r.tenant_id, r.number,
       (extract(epoch from r.period_from) * 1000000)::bigint, (extract(epoch from r.period_to) * 1000000)::bigint,
       r.grace_s, r.currency, r.prices, (extract(epoch from r.created_at) * 1000000)::bigint,
       exists (select from tenant_invoice i where i.tenant_id = r.tenant_id and i.run_number = r.number), r.made_by, r.person
from billing_run r
where r.tenant_id = %(tenant)s::text and r.billing_run_id = %(id)s::text
