-- id: ledger_chain
-- title: The hash chain of the ledger is whole and covers every transaction
-- severity: critical
-- owner: ledger
-- source: comparison
-- The ledger as the chain reads it; reconciliation/payments/ledger_chain.py follows the links.
select t.partition, t.txn_id, t.reference, t.kind, (extract(epoch from t.effective_at) * 1000000)::bigint,
       e.line, e.account_id, e.debit, e.credit, e.currency
from ledger_txn t left join ledger_entry e using (txn_id)
order by t.partition, t.txn_id, e.line
