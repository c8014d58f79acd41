-- Some rows of a tenant in the pool of this database, under its signed context. Primary key of the store.
-- The context is set by the row that the others are joined to, so it holds when the policy asks; were it asked before, it
-- would refuse.
select r.resource_id, r.version, r.payload, r.deleted
from (select set_config('app.ctx', %(context)s::text, true) is not null as is_set, %(tenant_id)s::text as tenant_id offset 0) c
join tenancy_pool.resource r on r.tenant_id = c.tenant_id and c.is_set
where r.resource_id = any (%(ids)s::text[])
