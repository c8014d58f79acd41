-- GET /v1/invoices/{invoice_id}/document?recompute=true: whether some of what the invoice says was removed. Primary keys.
select true
from billing_run r
where r.tenant_id = %(tenant)s::text and r.number = %(number)s::bigint and exists (
    select from usage_counted c
    where c.removed_until >= least(r.period_from, (
        select min((l ->> 'from')::timestamptz) from jsonb_array_elements(convert_from(%(invoice)s::bytea, 'UTF8')::jsonb -> 'lines') l
        where l ->> 'kind' = 'late_usage')))
