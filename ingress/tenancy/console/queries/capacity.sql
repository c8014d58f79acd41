-- The stores of tenants' rows. As many rows as there are stores.
select store, mode, is_made, tenants_max, bytes_max, tenants, bytes, standing, measured_at
from tenant_store order by mode desc, store limit %(limit)s
