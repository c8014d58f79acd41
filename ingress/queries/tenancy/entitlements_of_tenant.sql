-- GET /v1/entitlements, GET /v1/tenants/{tenant_id}/entitlements: what the tenant may. Primary key.
select entitlements, version from tenant_entitlement where tenant_id = %(tenant)s::text
