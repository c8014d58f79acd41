-- Whether a tenant's policy is still the one that a read was decided by. Primary key.
select policy_version <= %(policy_version)s::bigint from tenant where tenant_id = %(tenant_id)s::text
