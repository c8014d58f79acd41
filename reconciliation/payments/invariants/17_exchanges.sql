-- id: exchanges
-- title: An exchange is two pairs of one merchant through the clearing accounts, and these hold nothing else
-- severity: critical
-- owner: ledger
-- source: postgres
with line as (
    select e.txn_id, t.kind, e.currency, e.debit, e.credit, e.account_id,
           starts_with(e.account_id, 'fx_clearing:') as is_clearing
    from ledger_txn t join ledger_entry e using (txn_id)
    where t.kind = 'exchanged' or starts_with(e.account_id, 'fx_clearing:')
)
select txn_id, min(kind) as kind, count(*) as lines
from line group by txn_id
having min(kind) <> 'exchanged' or max(kind) <> 'exchanged' or count(*) <> 4
    or count(*) filter (where is_clearing) <> 2 or count(distinct currency) <> 2
    or count(distinct split_part(account_id, ':', 2)) filter (where not is_clearing) <> 1
    or count(*) filter (where not is_clearing and not starts_with(account_id, 'merchant_available:')) > 0
    or sum(sign(debit)) filter (where is_clearing) <> 1
