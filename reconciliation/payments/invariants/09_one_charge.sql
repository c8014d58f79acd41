-- id: 9
-- title: An intent has at most one live or successful charge, and the index that guards it is valid
-- severity: critical
-- owner: payments
-- source: postgres
select intent_id as object, count(*)::text as detail, 'several live charges' as reason
from processor_attempt
where kind in ('authorize', 'purchase') and status not in ('declined', 'failed', 'voided', 'blocked')
group by intent_id
having count(*) > 1
union all
select 'processor_attempt_one_charge', '', 'the unique index is missing or invalid'
where not exists (
    select 1 from pg_index
    where indexrelid = to_regclass('public.processor_attempt_one_charge') and indisunique and indisvalid
)
