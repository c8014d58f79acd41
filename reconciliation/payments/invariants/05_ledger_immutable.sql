-- id: 5
-- title: The ledger refuses every change: triggers are on, and no role of a running process may change or own it
-- severity: critical
-- owner: ledger
-- source: postgres
with expected (relation, trigger, function) as (
    values ('ledger_entry', 'ledger_entry_immutable', 'ledger_refuse_change'),
           ('ledger_entry', 'ledger_entry_balanced', 'ledger_require_balance'),
           ('ledger_txn', 'ledger_txn_immutable', 'ledger_refuse_change'),
           ('ledger_chain', 'ledger_chain_immutable', 'ledger_refuse_change')
),
app_role as (select oid, rolname, rolsuper from pg_roles where rolname = any (%(roles)s))
select e.relation as object, e.trigger as detail, 'the trigger is missing, disabled or another one' as reason
from expected e
where not exists (
    select 1 from pg_trigger t join pg_proc p on p.oid = t.tgfoid
    where t.tgrelid = to_regclass('public.' || e.relation) and t.tgname = e.trigger and p.proname = e.function
      and t.tgenabled in ('O', 'A')
)
union all
select relation, r.rolname || ' may ' || privilege, 'a role of a running process may change the ledger'
from (select distinct relation from expected) as x,
     app_role r,
     (values ('UPDATE'), ('DELETE'), ('TRUNCATE'), ('TRIGGER')) as p (privilege)
where has_table_privilege(r.oid, to_regclass('public.' || relation), privilege)
   or (privilege = 'UPDATE' and has_any_column_privilege(r.oid, to_regclass('public.' || relation), privilege))
union all
select c.relname, r.rolname, 'a role of a running process owns the table'
from pg_class c join app_role r on c.relowner = r.oid
where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
union all
select r.rolname, 'superuser', 'a role of a running process is a superuser' from app_role r where r.rolsuper
