-- The newest billing runs of all tenants. Served by billing_run_newest; invoices by their primary key.
select r.tenant_id, r.billing_run_id, r.number, r.period_from, r.period_to, r.currency, r.created_at, i.invoice_id,
       r.period_to + r.grace_s * interval '1 second' as due_at, (convert_from(i.document, 'UTF8')::jsonb ->> 'total')::numeric as total,
       r.made_by, r.person
from billing_run r left join tenant_invoice i on i.tenant_id = r.tenant_id and i.run_number = r.number
order by r.created_at desc limit %(limit)s
