-- GET /v1/entitlements, GET /v1/tenants/{tenant_id}/entitlements: what the tenant may. Primary key.
select entitlements, versions, version from tenant_entitlement where tenant_id = %(tenant)s::text
