-- Corrections and credit of a tenant, newest first. Primary key, from the right.
select entry_id, kind, dimension, quantity, unit_price, amount, reason, created_at, made_by, person from billing_entry
where tenant_id = %(tenant)s order by number desc limit %(limit)s
