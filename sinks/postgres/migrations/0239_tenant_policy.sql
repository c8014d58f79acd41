-- Whoever raises a tenant's policy raises what its gate refuses, in the same commit: also an owner or a mover of before.
create function tenant_policy_raised() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    update tenancy.gate g set policy_version = new.policy_version
    where g.tenant_id = new.tenant_id and g.policy_version < new.policy_version;
    return null;
end $$;
create trigger tenant_policy_raised after update of policy_version on tenant
    for each row when (new.policy_version > old.policy_version) execute function tenant_policy_raised();
