-- GET /v1/tenants/{tenant_id}/billing_entries: newest first. Primary key, from the right.
select entry_id, tenant_id, number, kind, dimension, quantity, unit_price, (extract(epoch from at) * 1000000)::bigint,
       (extract(epoch from period_from) * 1000000)::bigint, (extract(epoch from period_to) * 1000000)::bigint, amount, reason,
       (extract(epoch from created_at) * 1000000)::bigint, made_by, person
from billing_entry
where tenant_id = %(merchant)s::text and (number, entry_id) < (%(created_at)s::bigint, %(id)s::text)
order by number desc, entry_id desc limit %(limit)s::int
