-- GET /v1/placements: the stores of tenants' rows, a few. Primary key.
select store, mode, is_made, tenants_max, bytes_max, tenants, bytes, (extract(epoch from measured_at) * 1000000)::bigint
from tenant_store order by mode desc, store
