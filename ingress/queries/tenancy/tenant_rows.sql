-- Some rows of a tenant in a store of this database, under its signed context. Primary key of the store.
select resource_id, version, payload, deleted
from tenancy.read_rows(%(context)s::text, %(store)s::text, %(tenant_id)s::text, %(ids)s::text[])
