-- The same: has it made in the background, unless that is asked for already. Primary key.
insert into invoice_again (tenant_id, invoice_id) values (%(tenant)s::text, %(invoice)s::text)
on conflict (tenant_id, invoice_id) do update set asked_at = now(), made_at = null
where invoice_again.made_at <= now() - %(told_s)s::int * interval '1 second'
