-- The console shows tenants: no payload, no key.
grant select on tenant, placement, tenant_migration, quota_usage, usage_event, billing_run, tenant_invoice, billing_entry,
    tenant_entitlement, support_grant, tenant_audit to millrace_console;
grant select (tenant_id, key_version, state) on tenant_key to millrace_console;
create index billing_run_newest on billing_run (created_at);
create index support_grant_newest on support_grant (created_at);
