-- What the isolation monitor samples of the statements of others. It needs pg_read_all_stats.

-- name: tables_of_tenants
-- Tables whose key begins with the tenant. The catalog.
select distinct c.relname
from pg_index i
join pg_class c on c.oid = i.indrelid
join pg_namespace n on n.oid = c.relnamespace
join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0]
where i.indisprimary and a.attname = 'tenant_id' and (n.nspname = 'public' or n.nspname like 'tenancy%%');

-- name: statements_sampled
-- The newest of each session; one that is cut off cannot be judged.
select distinct query from pg_stat_activity
where usename = any(%(roles)s::text[]) and datname = current_database() and query <> ''
  and octet_length(query) < (select setting::int - 1 from pg_settings where name = 'track_activity_query_size');

-- name: statements_are_counted
-- Whether an outside server has the extension.
select to_regclass('pg_stat_statements') is not null;

-- name: statements_counted
-- All that it has counted.
select distinct s.query from pg_stat_statements s join pg_roles r on r.oid = s.userid
where r.rolname = any(%(roles)s::text[]);
