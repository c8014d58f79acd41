-- What tenants cost the database in the last minute, as this process measured it. Primary keys; tenant_cost_slice_ended.
select tenant_cost_add(%(source)s::text, %(tenants)s::text[], %(calls)s::bigint[], %(us)s::bigint[], %(at_most)s::integer)
