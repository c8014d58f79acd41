-- name: aggregate_version
-- Primary key.
select version from tenant where tenant_id = %(aggregate_key)s;
