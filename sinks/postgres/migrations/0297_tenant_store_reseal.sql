-- Rows that are sealed under an older key of their tenant are sealed anew where they lie. In the control database and in every
-- dedicated one.

-- Rows of one tenant get another seal of the same version, unless they were written or sealed since they were read; which of them
-- did. It waits for no row that somebody else writes: that one is sealed anew by its write, or looked at again.
create function tenancy.reseal_rows(context text, store text, tenant text, ids text[], versions bigint[], was bytea[], sealed bytea[])
returns setof text
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    perform set_config('app.ctx', context, true);
    return query execute format('
        with given as (
            select * from unnest($2, $3, $4, $5) as g (resource_id, version, was, sealed)),
        still as (
            select r.resource_id from %1$I.resource r join given g on g.resource_id = r.resource_id collate "C"
            where r.tenant_id = $1 and r.version = g.version and r.payload = g.was and not r.deleted
            order by r.resource_id for update of r skip locked)
        update %1$I.resource r set payload = g.sealed
        from given g join still s on s.resource_id = g.resource_id collate "C"
        where r.tenant_id = $1 and r.resource_id = g.resource_id collate "C"
        returning r.resource_id', store)
    using tenant, ids, versions, was, sealed;
end $$;
