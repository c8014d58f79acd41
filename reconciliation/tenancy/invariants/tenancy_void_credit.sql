-- id: tenancy_void_credit
-- title: What an invoice had taken of a tenant's credit is given back once, and only where it is void
-- severity: critical
-- owner: whoever changed billing
-- source: postgres
select r.tenant_id, r.ordinal, v.invoice_id, count(*) as times
from (select i.tenant_id, o.ordinal from tenant_invoice i cross join lateral unnest(i.returned) as o (ordinal)) r
left join tenant_invoice v on v.tenant_id = r.tenant_id and v.ordinal = r.ordinal
group by r.tenant_id, r.ordinal, v.invoice_id
having count(*) > 1 or v.invoice_id is null
    or not exists (select from payment_intent p
                   where p.merchant_id = 'm_millrace_billing' and p.reference = v.invoice_id and p.state = 'canceled')
