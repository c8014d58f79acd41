-- GET /v1/tenants/{tenant_id}/billing_runs: newest first. Primary key of both.
select r.billing_run_id, r.invoice_id, r.tenant_id, r.number,
       (extract(epoch from r.period_from) * 1000000)::bigint, (extract(epoch from r.period_to) * 1000000)::bigint,
       r.grace_s, r.currency, r.prices, (extract(epoch from r.created_at) * 1000000)::bigint,
       exists (select from tenant_invoice i where i.tenant_id = r.tenant_id and i.run_number = r.number), r.made_by, r.person
from billing_run r
where r.tenant_id = %(merchant)s::text and (r.number, r.billing_run_id) < (%(created_at)s::bigint, %(id)s::text)
order by r.number desc, r.billing_run_id desc limit %(limit)s::int
