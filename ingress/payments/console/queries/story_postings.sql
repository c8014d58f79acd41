-- The ledger transactions of commands: a transaction's id is made of its command's place, so the primary key serves it.
select t.txn_id, t.reference, t.kind, t.trace_id, t.effective_at, t.recorded_at,
       (select jsonb_agg(jsonb_build_object('account_id', e.account_id, 'debit', e.debit, 'credit', e.credit,
                                            'currency', e.currency) order by e.line)
        from ledger_entry e where e.txn_id = t.txn_id) as lines
from unnest(%(first)s::bigint[], %(last)s::bigint[]) as place (first_txn, last_txn)
cross join lateral (select * from ledger_txn l where l.txn_id between place.first_txn and place.last_txn) t
order by t.txn_id limit %(limit)s
