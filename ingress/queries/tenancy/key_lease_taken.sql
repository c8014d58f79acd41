-- A lease on keys of tenants, of a process that holds none. Primary key.
select key_lease_taken(%(holder)s::text, %(instance)s::text, %(lease_s)s::integer)
