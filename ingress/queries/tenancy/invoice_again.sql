-- GET /v1/invoices/{invoice_id}/document?recompute=true: whether it is made in the background, and its bytes when it was. Primary key.
select case when made_at is not null then document end
from invoice_again
where tenant_id = %(tenant)s::text and invoice_id = %(invoice)s::text
  and (made_at is null or made_at > now() - %(told_s)s::int * interval '1 second')
