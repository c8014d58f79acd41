-- This process stops, and holds no key of a tenant any more. Primary key.
select key_lease_left(%(holder)s::text)
