-- id: audit
-- title: The audit log is one chain up to its head, and no role of a running process may change it
-- severity: critical
-- owner: reconciliation
-- source: postgres
with followed as (
    select seq, prev_hash, hash, lag(hash, 1, decode(repeat('00', 32), 'hex')) over (order by seq) as expected_prev,
           row_number() over (order by seq) as expected_seq,
           (select sha256(l.prev_hash || convert_to(string_agg(octet_length(f.value) || ':' || f.value || ',', ''
                                                               order by f.n), 'UTF8'))
            from unnest(array[seq::text, (extract(epoch from at) * 1000000)::bigint::text, actor, db_role, action, object,
                              outcome, details::text]) with ordinality as f (value, n)) as expected_hash
    from audit_log l
),
app_role as (select oid, rolname from pg_roles where rolname = any (%(roles)s))
select seq::text as object, 'it does not follow from the row before' as reason
from followed where seq <> expected_seq or prev_hash <> expected_prev or hash <> expected_hash
union all
select h.seq::text, 'the log does not end at its head'
from audit_head h
left join lateral (select seq, hash from audit_log order by seq desc limit 1) l on true
where (h.seq, h.hash) is distinct from (coalesce(l.seq, 0), coalesce(l.hash, decode(repeat('00', 32), 'hex')))
union all
select relation, r.rolname || ' may ' || privilege
from (values ('audit_log'), ('audit_head'), ('repair_proposal'), ('case_closing'),
             ('attempt_outcome_proposal')) as t (relation), app_role r,
     (values ('INSERT'), ('UPDATE'), ('DELETE'), ('TRUNCATE'), ('TRIGGER')) as p (privilege)
where has_table_privilege(r.oid, to_regclass('public.' || relation), privilege)
   or (privilege in ('INSERT', 'UPDATE') and has_any_column_privilege(r.oid, to_regclass('public.' || relation), privilege))
union all
select e.relation, 'its trigger is missing or disabled'
from (values ('audit_log', 'audit_log_immutable'), ('audit_head', 'audit_head_kept'), ('repair_proposal', 'repair_proposal_kept'),
             ('case_closing', 'case_closing_kept'), ('attempt_outcome_proposal', 'attempt_outcome_kept')) as e (relation, trigger)
where not exists (select 1 from pg_trigger t where t.tgrelid = to_regclass('public.' || e.relation)
                  and t.tgname = e.trigger and t.tgenabled in ('O', 'A'))
