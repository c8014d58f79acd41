-- GET /v1/usage: what people corrected of a dimension in a span, newest first, with how many there are and their sum. Primary key.
select entry_id, quantity, (extract(epoch from at) * 1000000)::bigint, (extract(epoch from period_from) * 1000000)::bigint,
       (extract(epoch from period_to) * 1000000)::bigint, reason, made_by, (extract(epoch from created_at) * 1000000)::bigint,
       count(*) over (), sum(quantity) over ()
from billing_entry
where tenant_id = %(tenant)s::text and kind = 'adjustment' and dimension = %(dimension)s::text
  and at >= %(from)s::timestamptz and at < %(to)s::timestamptz
order by number desc limit %(limit)s::int
