-- The newest billing runs of a tenant with their invoices. Primary keys, from the right.
select r.billing_run_id, r.number, r.period_from, r.period_to, r.currency, r.created_at, i.invoice_id, i.created_at as made_at,
       r.period_to + r.grace_s * interval '1 second' as due_at, (convert_from(i.document, 'UTF8')::jsonb ->> 'total')::numeric as total,
       i.credit_left, r.made_by, r.person
from billing_run r left join tenant_invoice i on i.tenant_id = r.tenant_id and i.run_number = r.number
where r.tenant_id = %(tenant)s order by r.number desc limit %(limit)s
