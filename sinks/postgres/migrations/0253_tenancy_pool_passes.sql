-- Rows of the pool are read at seven tenths of what their proof cost: it asks one relation in place of two, and has two thirds of
-- the expressions. In the control database alone, where the pool is. What no pass lets in is judged by tenancy.proven as before:
-- contexts of a release before, of another key, of another generation or policy than the gate's, and all that is to be refused.

-- By tenant: what its gate and a key let a reader's context say, as a pattern up to the mac, and the key. Derived from both tables
-- by their triggers, in the commit that changes them. No role of a running process reads or writes it.
create table tenancy.pass (
    tenant_id   text collate "C" primary key,
    said        text collate "C" not null,
    inner_block bytea not null,
    outer_block bytea not null
);
comment on table tenancy.pass is 'derived from tenancy.gate and tenancy.context_key: which context of a tenant needs no further question';
comment on column tenancy.pass.tenant_id is 'of a gate of this database';
comment on column tenancy.pass.said is 'pattern of like: tenant|generation|r|expires (ten digits)|policy|key id|';
comment on column tenancy.pass.inner_block is 'of the newest key, as in tenancy.context_key';
comment on column tenancy.pass.outer_block is 'of the newest key, as in tenancy.context_key';

-- Where the gate knows no policy, a context may say any or none. Of several keys one is in the passes: while keys rotate, contexts
-- of the other one are judged.
create view tenancy.pass_due with (security_invoker) as
select g.tenant_id,
       replace(g.tenant_id, '_', '\_') || '|' || g.generation || '|r|' || repeat('_', 10) || '|'
           || case g.policy_version when 0 then '%' else g.policy_version || '|' end || replace(k.key_id, '_', '\_') || '|' as said,
       k.inner_block, k.outer_block
from tenancy.gate g
cross join (select * from tenancy.context_key order by key_id desc limit 1) k;
revoke all on tenancy.pass_due from public;
comment on view tenancy.pass_due is 'what tenancy.pass holds, made anew';
comment on column tenancy.pass_due.tenant_id is 'as tenancy.pass';
comment on column tenancy.pass_due.said is 'as tenancy.pass';
comment on column tenancy.pass_due.inner_block is 'as tenancy.pass';
comment on column tenancy.pass_due.outer_block is 'as tenancy.pass';

-- Whoever changes a gate changes its pass in the same statement. Reads are let in whatever its access is.
create function tenancy.gate_passes() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_op in ('UPDATE', 'DELETE') then
        delete from tenancy.pass p using was w where p.tenant_id = w.tenant_id;
    end if;
    if tg_op in ('INSERT', 'UPDATE') then
        insert into tenancy.pass
        select d.* from tenancy.pass_due d where d.tenant_id in (select n.tenant_id from becomes n)
        on conflict (tenant_id) do update
        set said = excluded.said, inner_block = excluded.inner_block, outer_block = excluded.outer_block;
    end if;
    return null;
end $$;
revoke all on function tenancy.gate_passes() from public;
create trigger gate_passes_insert after insert on tenancy.gate
    referencing new table as becomes for each statement execute function tenancy.gate_passes();
create trigger gate_passes_update after update on tenancy.gate
    referencing old table as was new table as becomes for each statement execute function tenancy.gate_passes();
create trigger gate_passes_delete after delete on tenancy.gate
    referencing old table as was for each statement execute function tenancy.gate_passes();

-- A key that comes, changes or goes changes all passes. Who writes gates waits meanwhile, or is waited for: neither sees the other's
-- rows before its commit, and a pass would be left that knows only one of the two. A key that is installed again changes nothing.
create function tenancy.key_passes() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    lock table tenancy.gate in share row exclusive mode;
    delete from tenancy.pass;
    insert into tenancy.pass select d.* from tenancy.pass_due d;
    return null;
end $$;
revoke all on function tenancy.key_passes() from public;
create trigger key_passes after insert or delete on tenancy.context_key
    for each row execute function tenancy.key_passes();
create trigger key_passes_changed after update on tenancy.context_key
    for each row when (old is distinct from new) execute function tenancy.key_passes();
create trigger key_passes_truncate after truncate on tenancy.context_key
    for each statement execute function tenancy.key_passes();
create trigger gate_passes_truncate after truncate on tenancy.gate
    for each statement execute function tenancy.key_passes();
insert into tenancy.pass select d.* from tenancy.pass_due d;

-- The tenant of a context that a pass lets in, else null or no row. Nothing of a text is believed before all of it is as the pass and
-- the mac have it.
create view tenancy.passed with (security_barrier) as
select case when current_setting('app.ctx', true) like p.said || encode(sha256(p.outer_block || sha256(p.inner_block
                     || convert_to(left(current_setting('app.ctx', true), -65), 'UTF8'))), 'hex')
            then case when to_timestamp(split_part(current_setting('app.ctx', true), '|', 4)::double precision) >= clock_timestamp()
                      then p.tenant_id collate "default" end
       end as tenant_id
from tenancy.pass p
where p.tenant_id = split_part(current_setting('app.ctx', true), '|', 1);
revoke all on tenancy.passed from public;
grant select on tenancy.passed to millrace_ingress;
comment on view tenancy.passed is 'The tenant that the signed context of the transaction proves, where a pass lets it in; else nothing';
comment on column tenancy.passed.tenant_id is 'whose rows it may see';

-- As tenancy.proven, in a plan of its own: who need not ask pays nothing for it.
create function tenancy.judged() returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    return (select p.tenant_id from tenancy.proven p);
end $$;
revoke all on function tenancy.judged() from public;
grant execute on function tenancy.judged() to millrace_ingress;

-- The policy puts both together, not the view: a view of its own would be a further node of each plan.
alter policy reads_one on tenancy_pool.resource
    using (tenant_id = coalesce((select p.tenant_id from tenancy.passed p), (select tenancy.judged())));
