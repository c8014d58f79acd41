-- id: tenancy_invoices_recomputable
-- title: Every invoice whose usage is kept is made again from its events and its run's prices, byte for byte
-- severity: critical
-- owner: whoever changed billing
-- source: comparison
select i.tenant_id, i.run_number, i.ordinal, i.cut, coalesce(b.cut, '{}') as before, i.entries,
       coalesce(b.entries, 0) as entries_before,
       coalesce(b.credit_left, 0) + invoice_credit_taken(i.tenant_id, i.returned) as credit_before, i.late_rule,
       i.meter_version, i.credit_left, i.invoice_id, i.document
from tenant_invoice i left join tenant_invoice b on b.tenant_id = i.tenant_id and b.ordinal = i.ordinal - 1
join billing_run r on r.tenant_id = i.tenant_id and r.number = i.run_number
where not exists (
    select from usage_counted c
    where c.removed_until >= least(r.period_from, (
        select min((l ->> 'from')::timestamptz) from jsonb_array_elements(convert_from(i.document, 'UTF8')::jsonb -> 'lines') l
        where l ->> 'kind' = 'late_usage')))
order by i.tenant_id, i.ordinal
