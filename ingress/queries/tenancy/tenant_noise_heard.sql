-- Tenants that had most of this process's time of the database in a window. Primary key.
select tenant_noise_heard(%(process)s::integer, %(callers)s::text[], %(shares)s::integer[], %(ms)s::bigint[], %(again_s)s::integer,
                          %(move_windows)s::integer)
