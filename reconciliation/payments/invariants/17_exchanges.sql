-- id: exchanges
-- title: An exchange is two pairs of one merchant, or of one settlement, through the clearing accounts, which hold nothing else
-- severity: critical
-- owner: ledger
-- source: postgres
-- With the pairs of a settlement comes the fee that the processor kept in the currency that it settled in.
with line as (
    select e.txn_id, t.kind, e.currency, e.debit, e.credit, e.account_id,
           starts_with(e.account_id, 'fx_clearing:') as is_clearing,
           t.kind = 'settlement_exchanged' as is_settled,
           starts_with(e.account_id, 'processor_fee_expense:') as is_fee
    from ledger_txn t join ledger_entry e using (txn_id)
    where t.kind in ('exchanged', 'settlement_exchanged') or starts_with(e.account_id, 'fx_clearing:')
)
select txn_id, min(kind) as kind, count(*) as lines
from line group by txn_id
having (min(kind) <> max(kind) or min(kind) not in ('exchanged', 'settlement_exchanged')
    or count(*) - 2 * count(*) filter (where is_settled and is_fee) <> 4
    or count(*) filter (where is_clearing) <> 2 or count(distinct currency) <> 2
    or count(distinct split_part(account_id, ':', 2)) filter (where not is_clearing) <> 1
    or count(*) filter (where not is_clearing and not starts_with(account_id, case when is_settled then 'processor_'
                                                                                 else 'merchant_available:' end)) > 0
    or sum(sign(debit)) filter (where is_clearing) <> 1)
   -- what is worth less than a minor unit of the other currency has one pair only
   and not (bool_and(is_settled) and count(*) filter (where is_clearing) = 1 and count(distinct currency) = 1)
