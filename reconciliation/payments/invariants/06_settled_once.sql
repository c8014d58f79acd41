-- id: settled
-- title: An attempt is settled once, after its money moved; journal entries have the posting of their reference
-- severity: critical
-- owner: payments
-- source: postgres
select t.aggregate_key as object, t.reference as detail, 'matured without a settled attempt' as reason
from ledger_txn t
left join processor_attempt a on a.intent_id = t.aggregate_key and t.reference = a.operation_id || ':settled'
where t.kind = 'settled' and a.settled_line is null
union all
select intent_id, operation_id, 'settled, but its money has not moved'
from processor_attempt
where settled_line is not null and status not in ('captured', 'refunded') and not (kind = 'refund' and final)
union all
select coalesce(j.id, t.aggregate_key), coalesce(j.reference, t.reference), 'a journal entry without its posting, or the reverse'
from journal_entry j
full join (select * from ledger_txn where starts_with(aggregate_key, 'jr_')) t
    on t.aggregate_key = j.id and t.reference = j.reference and t.kind = j.kind
where j.id is null or t.txn_id is null
