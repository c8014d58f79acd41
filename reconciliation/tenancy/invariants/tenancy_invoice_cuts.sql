-- id: tenancy_invoice_cuts
-- title: Invoices of a tenant are numbered without gap, and each takes up usage where the one before left off, or later
-- severity: critical
-- owner: whoever changed billing
-- source: postgres
select i.tenant_id, i.invoice_id, i.ordinal, i.cut, b.cut as before
from tenant_invoice i left join tenant_invoice b on b.tenant_id = i.tenant_id and b.ordinal = i.ordinal - 1
where (i.ordinal > 1 and b.ordinal is null)
   or i.entries < coalesce(b.entries, 0)
   or i.entries > (select coalesce(max(e.number), 0) from billing_entry e where e.tenant_id = i.tenant_id)
   or exists (select from unnest(i.cut, b.cut) as c (mine, other) where coalesce(c.mine, 0) < coalesce(c.other, 0))
   or exists (select from unnest(i.cut) with ordinality as c (mine, place)
              join usage_counted u on u.partition = c.place - 1 where c.mine > u.last_seq)
