-- What the isolation monitor writes, and what it asks the catalog: each lint gives what is amiss, by name.

-- name: round_done
-- After a round in which every probe was carried out. Primary key.
insert into isolation_round as r (as_of, probes) values (clock_timestamp(), %(probes)s)
on conflict (only_one) do update set as_of = excluded.as_of, probes = r.probes + excluded.probes;

-- name: violation_insert
-- Evidence; the same that is open already is not told again. Index isolation_violation_open.
insert into isolation_violation (probe, evidence)
select %(probe)s, %(evidence)s
where not exists (select from isolation_violation
                  where resolved_at is null and probe = %(probe)s and evidence = %(evidence)s);

-- name: trip
-- Safe mode, with the evidence, in one transaction with its audit row and case: whether it was off.
select isolation_trip(%(probe)s, %(evidence)s);

-- name: canaries
-- As which tenants the monitor asks: they are served in safe mode, too.
select isolation_canaries(%(ids)s);

-- name: lint_done
-- With the round. Primary key.
insert into isolation_lint (lint_id, gaps, named) values (%(lint_id)s, %(gaps)s, %(named)s)
on conflict (lint_id) do update set gaps = excluded.gaps, named = excluded.named;

-- name: lint_keys_led_by_tenant
-- A unique key of tenants' data that does not begin with the tenant is an oracle: whether another tenant has it.
select i.indexrelid::regclass::text
from pg_index i
join pg_class c on c.oid = i.indrelid and c.relkind in ('r', 'p')
join pg_namespace n on n.oid = c.relnamespace
join pg_attribute t on t.attrelid = c.oid and t.attname = 'tenant_id' and not t.attisdropped
where i.indisunique and i.indkey[0] <> t.attnum
  and (n.nspname like 'tenancy%%' or n.nspname = 'public')
  and c.relname not in ('placement', 'resource_feed', 'quota_tenant');

-- name: lint_rows_under_policies
-- A table of tenants' rows without forced policies shows them to whoever may read it, and so does one with a policy of
-- another kind: each asks the context for the tenant, but for those of analysts and operators, who only read.
select c.oid::regclass::text
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and c.relname = 'resource' and (n.nspname like 'tenancy%%' or n.nspname like 'pl\_%%')
  and not (c.relrowsecurity and c.relforcerowsecurity)
union all
select format('%%s: policy %%s', format('%%I.%%I', p.schemaname, p.tablename), p.policyname)
from pg_policies p
where p.tablename = 'resource' and (p.schemaname like 'tenancy%%' or p.schemaname like 'pl\_%%')
  and not (p.cmd = 'SELECT' and p.roles <@ array['millrace_reader', 'millrace_operator']::name[])
  and not (p.roles <@ array['millrace_tenancy_owner', 'millrace_tenancy_mover', 'millrace_ingress']::name[]
           and concat(p.qual, p.with_check) <> ''
           and coalesce(p.qual, p.with_check) ~ '^\(tenant_id = .*tenancy\.(tenants_of_context|proven|passed)'
           and coalesce(p.with_check, p.qual) ~ '^\(tenant_id = .*tenancy\.(tenants_of_context|proven|passed)');

-- name: lint_no_copies_past_policies
-- Materialized views know no policies, and views use those of their owner. A copy of what has no tenant is none; what is
-- asked by the policies themselves shows the caller's own context alone.
with recursive made_of (relation, of) as (
    select r.ev_class, d.refobjid
    from pg_rewrite r
    join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass
    where d.refobjid <> r.ev_class
    union
    select m.relation, d.refobjid
    from made_of m
    join pg_rewrite r on r.ev_class = m.of
    join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass
    where d.refobjid <> r.ev_class)
select c.oid::regclass::text
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where (c.relkind = 'm' and exists (select from made_of m
                                   join pg_attribute t on t.attrelid = m.of and t.attname = 'tenant_id' and not t.attisdropped
                                   where m.relation = c.oid))
   or (c.relkind = 'v' and n.nspname like 'tenancy%%'
       and not coalesce(c.reloptions @> array['security_invoker=true'], false)
       and not (n.nspname = 'tenancy' and c.relname in ('proven', 'passed')
                and coalesce(c.reloptions @> array['security_barrier=true'], false)));

-- name: lint_roles_are_bound
-- No role of a running process passes policies by.
select rolname from pg_roles where rolname like 'millrace\_%%' and (rolsuper or rolbypassrls or rolcreaterole);

-- name: lint_definers_are_pinned
-- What runs with its owner's rights must not find another's functions, and is not everybody's.
select p.oid::regprocedure::text
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where p.prosecdef and (n.nspname like 'tenancy%%' or p.proname like 'tenant\_%%')
  and (not exists (select from unnest(p.proconfig) s where s like 'search_path=%%')
       or has_function_privilege('public', p.oid, 'execute'));

-- name: lint_rows_held_by_whom_they_should
-- Policies bind nobody who owns a table or may truncate it, and a right that nobody was given is a way past them: rows of
-- tenants belong to who made the store, who is not the ingress or an owner; these have the rights of the release alone.
select format('%%s: owner %%s', c.oid::regclass, pg_get_userbyid(c.relowner))
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and c.relname = 'resource' and (n.nspname like 'tenancy%%' or n.nspname like 'pl\_%%')
  and pg_get_userbyid(c.relowner) like 'millrace\_%%' and pg_get_userbyid(c.relowner) <> 'millrace_tenancy_mover'
union all
select format('%%s: %%s to %%s', c.oid::regclass, lower(a.privilege_type),
              case a.grantee when 0 then 'public' else pg_get_userbyid(a.grantee) end)
from pg_class c join pg_namespace n on n.oid = c.relnamespace cross join aclexplode(c.relacl) a
where c.relkind in ('r', 'p') and c.relname = 'resource' and (n.nspname like 'tenancy%%' or n.nspname like 'pl\_%%')
  and a.grantee <> c.relowner
  and not (a.privilege_type = 'SELECT' and a.grantee <> 0 and pg_get_userbyid(a.grantee) in (
           'millrace_reader', 'millrace_operator', 'millrace_ingress', 'millrace_tenancy_owner', 'millrace_tenancy_mover'))
  and not (a.privilege_type in ('INSERT', 'UPDATE') and a.grantee <> 0
           and pg_get_userbyid(a.grantee) in ('millrace_tenancy_owner', 'millrace_tenancy_mover'))
  and not (a.privilege_type = 'DELETE' and a.grantee <> 0 and pg_get_userbyid(a.grantee) = 'millrace_tenancy_mover');
