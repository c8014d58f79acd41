-- id: refunds
-- title: Every refund has one attempt and one posting of its amount, and its state is what became of the attempt
-- severity: critical
-- owner: payments
-- source: postgres
with refund_attempt as (select * from processor_attempt where kind = 'refund'),
set_aside as (
    select t.reference, sum(e.credit) as amount
    from ledger_txn t join ledger_entry e using (txn_id)
    where t.kind = 'refund' and starts_with(e.account_id, 'refund_in_flight:')
    group by t.reference
),
found as (
    select r.id, intent_id, attempt, r.state, r.amount, a.status, a.amount as attempt_amount, s.amount as posted,
           count(*) over (partition by intent_id, attempt) as refunds,
           case r.state when 'succeeded' then array['refunded']
                        when 'pending' then array['created', 'pending', 'unknown', 'manual_review']
                        when 'requires_action' then array['requires_action']
                        else array['failed', 'declined'] end as statuses,
           r.currency is distinct from a.currency as other_currency
    from refund r
    full join refund_attempt a using (intent_id, attempt)
    full join set_aside s on s.reference = r.id || ':created'
)
select id, intent_id, attempt, state, status, amount, attempt_amount, posted
from found
where id is null or status is null or posted is null or refunds > 1 or status <> all (statuses)
   or amount <> attempt_amount or amount <> posted or other_currency
