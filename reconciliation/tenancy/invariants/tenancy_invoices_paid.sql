-- id: tenancy_invoices_paid
-- title: Whoever pays an invoice pays its total, in its currency, by the one intent that names it
-- severity: critical
-- owner: whoever changed billing
-- source: postgres
select p.reference as invoice_id, p.id as payment_intent, p.amount, p.currency,
       case when i.invoice_id is null then 'there is no such invoice'
            when p.number > 1 then 'a second intent'
            else 'another amount' end as reason
from (select id, reference, amount, currency, row_number() over (partition by reference order by created_at, id) as number
      from payment_intent where merchant_id = 'm_millrace_billing' and reference like 'in\_%%' and state <> 'canceled') p
left join tenant_invoice i on i.invoice_id = p.reference
cross join lateral (select convert_from(i.document, 'UTF8')::jsonb as said) d
where i.invoice_id is null or p.number > 1
   or (d.said->>'total')::bigint is distinct from p.amount or d.said->>'currency' is distinct from p.currency
