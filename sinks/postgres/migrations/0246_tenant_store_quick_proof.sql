-- The proof of readers, at three quarters of its cost: nearly all of that was setting up expressions of its plan, for each read.
-- So the view has the one expression that lets a context pass, and whoever it does not let pass is told why by the function
-- of those who write. What raised before raises still, with the same codes. In the control database and in every dedicated one.

create or replace function tenancy.refused() returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    perform tenancy.tenants_of_context(false);
    raise exception 'the tenant context is not of one tenant' using errcode = '42501';
end $$;
revoke all on function tenancy.refused() from public;
grant execute on function tenancy.refused() to millrace_ingress;

-- Judges as tenants_of_context does. Mac and key id are counted from the end, for a context of a release before says no policy. CASE keeps the order:
-- nothing of a text is believed before its mac; and what is null, for nothing was found or said, is refused. (A column of a view
-- keeps its collation.)
create or replace view tenancy.proven with (security_barrier) as
select coalesce(
           case when split_part(c.said, '|', -1) = encode(sha256(k.outer_block || sha256(k.inner_block
                     || convert_to(left(c.said, -65), 'UTF8'))), 'hex')
                then case when to_timestamp(split_part(c.said, '|', 4)::double precision) >= clock_timestamp()
                               and g.generation <= split_part(c.said, '|', 2)::bigint
                               and case when split_part(c.said, '|', 7) = '' then true
                                        else g.policy_version <= split_part(c.said, '|', 5)::bigint end
                          then g.tenant_id collate "default" end
           end, tenancy.refused()) as tenant_id
from (select current_setting('app.ctx', true) as said offset 0) c
left join tenancy.context_key k on k.key_id = split_part(c.said, '|', -2)
left join tenancy.gate g on g.tenant_id = split_part(c.said, '|', 1);

drop function if exists tenancy.refuse(text, text);
