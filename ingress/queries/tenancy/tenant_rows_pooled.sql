-- Some rows of a tenant in the pool of this database, under its signed context. Primary key of the store.
-- The context is set by what is asked once, before any row is looked for, so it holds when the policy asks; were that asked
-- before, it would refuse. The tenant is in a list, for an equality would be asked once, too, with the policy's: either first.
select resource_id, version, payload, deleted
from tenancy_pool.resource
where (select set_config('app.ctx', %(context)s::text, true)) is not null
  and tenant_id = any (array[%(tenant_id)s::text]) and resource_id = any (%(ids)s::text[])
