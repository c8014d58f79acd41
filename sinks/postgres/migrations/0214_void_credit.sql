-- The credit that a void invoice had taken is given back by the next invoice of its tenant, which names it; once. That of
-- those made before is a person's to give, as it was: they have null here.
alter table tenant_invoice add column returned bigint[];
comment on column tenant_invoice.returned is 'the void ones, by their ordinals, whose credit it gives back; null = made before that was so';
grant insert (returned) on tenant_invoice to millrace_tenancy_metering;
-- whether it is void is what payments say of its intent, and nothing else of a payment is shown to the metering
grant select (id, state) on payment_intent to millrace_tenancy_metering;

create function invoice_credit_taken(of_tenant text, ordinals bigint[]) returns bigint
language sql stable set search_path = pg_catalog, public
return (select coalesce(-sum((l ->> 'amount')::bigint), 0)::bigint
        from public.tenant_invoice i
        cross join lateral jsonb_array_elements(convert_from(i.document, 'UTF8')::jsonb -> 'lines') l
        where i.tenant_id = of_tenant and i.ordinal = any(ordinals) and l ->> 'kind' = 'credit');
comment on function invoice_credit_taken is 'what some invoices of a tenant took of its credit';
