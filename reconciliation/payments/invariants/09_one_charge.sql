-- id: 9
-- title: An intent has at most one live or successful charge, and the index that guards it is valid
-- severity: critical
-- owner: payments
-- source: postgres
-- A purchase that is not final took money beside another charge: two persons vouched for that, and it goes back.
select intent_id as object, count(*)::text as detail, 'several live charges' as reason
from processor_attempt
where kind in ('authorize', 'purchase') and status not in ('declined', 'failed', 'voided', 'blocked')
  and (final or kind <> 'purchase')
group by intent_id
having count(*) > 1
union all
select a.intent_id, a.operation_id, 'a charge beside another one that no two persons vouched for'
from processor_attempt a
where a.kind = 'purchase' and not a.final
  and (a.status <> 'captured'
       or not exists (select 1 from attempt_outcome_proposal p where p.operation_id = a.operation_id
                      and p.state in ('approved', 'recorded') and p.fact ->> 'status' = 'captured'))
union all
select 'processor_attempt_one_charge', '', 'the unique index is missing or invalid'
where not exists (
    select 1 from pg_index
    where indexrelid = to_regclass('public.processor_attempt_one_charge') and indisunique and indisvalid
)
