-- id: 16
-- title: Every manual posting was proposed by one person and approved by another, is what they saw, and is audited
-- severity: critical
-- owner: reconciliation
-- source: postgres
with posted as (
    select j.reference, t.txn_id,
           (select jsonb_agg(jsonb_build_object('account_id', e.account_id, 'debit', e.debit, 'credit', e.credit,
                                                'currency', e.currency) order by e.line)
            from ledger_entry e where e.txn_id = t.txn_id) as entries
    from journal_entry j left join ledger_txn t using (reference)
    where j.scope = 'ledger:repair' or starts_with(j.reference, 'repair:')
),
proposed as (
    select 'repair:' || p.id as reference, p.*,
           exists (select 1 from audit_log a where a.object = p.id and a.action = 'repair.approve'
                   and a.outcome = 'done' and a.actor = p.decided_by) as is_audited
    from repair_proposal p where p.state in ('approved', 'posted')
)
select coalesce(p.reference, q.reference) as reference, q.state, q.author, q.decided_by, q.is_audited,
       case when q.reference is null then 'nobody proposed and approved it'
            when p.reference is null then 'it is said to be posted and is not in the ledger'
            when q.author = q.decided_by then 'approved by its author'
            when not q.is_audited then 'its approval is not in the audit log'
            else 'posted otherwise than it was approved' end as reason
from posted p full join proposed q using (reference)
where q.reference is null
   or (p.reference is null and q.state = 'posted')
   or q.author is not distinct from q.decided_by
   or not q.is_audited
   or (p.reference is not null and (p.entries is distinct from q.entries
                                    or (q.state = 'posted' and p.txn_id is distinct from q.txn_id)))
