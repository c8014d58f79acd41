-- Since which version of all that a tenant may each feature is what it is. What is not in here is of the row's own version.
alter table tenant_entitlement add column versions jsonb not null default '{}';
grant update (versions) on tenant_entitlement to millrace_tenancy_owner;
