-- The lease goes on; the tenants whose keys were shredded since what is acknowledged. Primary key, tenant_key_shreds.
select shred_seq, tenant_id from key_lease_kept(%(holder)s::text, %(acked)s::bigint, %(lease_s)s::integer)
