-- id: metadata
-- title: Lists by metadata find what was written on payments, refunds and payouts, and nothing else
-- severity: major
-- owner: owner
-- source: postgres
with written as (
    select 'payment_intent' as kind, t.merchant_id, e.key, e.value, t.created_at, t.id
    from payment_intent t, json_each_text(t.metadata::json) e where t.metadata <> '{}'
    union all
    select 'refund', t.merchant_id, e.key, e.value, t.created_at, t.id
    from refund t, json_each_text(t.metadata::json) e where t.metadata <> '{}'
    union all
    select 'payout', t.merchant_id, e.key, e.value, t.created_at, t.id
    from payout t, json_each_text(t.metadata::json) e where t.metadata <> '{}'
)
select kind, merchant_id, id, key, case when m.id is null then 'it is not found' else 'it is found and not there' end as reason
from (select *, metadata_digest(kind, merchant_id, key, value) as digest from written) w
full join metadata_place m using (digest, created_at, id)
where w.id is null or m.id is null
