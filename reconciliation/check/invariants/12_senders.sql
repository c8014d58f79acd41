-- id: senders
-- title: What was committed was signed, by a sender who may speak in that name
-- severity: critical
-- owner: owner
-- source: postgres
-- Unsigned is what an earlier release left in the topic, below signed_from; no sender, what it decided itself.
-- The rules are those of schemas.senders.speaks_for, and of a program outside those of Operation.is_from_outside. What was
-- parked is in whatever name, and what an operator let try again; in a processor's name persons say what two of them approved.
with may_speak (sender, scope) as (values
        ('operators', 'operator:'), ('processor_worker', 'processor:'), ('webhook_worker', 'processor:'),
        ('repairs', 'ledger:repair'), ('repairs', 'processor:'), ('repairs', 'operator:approved'),
        ('reconcile', 'processor:'), ('reconcile', 'settlement:'), ('reconcile', 'ledger:reconciliation'),
        ('limiter_gateway', 'quota:')),
    outside (kind, operation) as (select * from unnest(%(outside_kinds)s::text[], %(outside_operations)s::text[])),
    internal (scope) as (values ('processor:'), ('settlement:'), ('ledger:'), ('quota:'), ('worker:'), ('operator:'))
select i.merchant_id as scope, i.key, i.operation, i.sender, i.event_id, i.topic, i.partition, i."offset"
from idempotency i left join partition_owner p using (topic, partition)
where i.status = 'committed' and not case
    when i.sender is null or i.sender = 'unsigned'
        then p.topic is not null and i."offset" < coalesce(p.signed_from, i."offset" + 1)
    when i.sender in ('ingress', 'publisher')
        then not exists (select from internal n where starts_with(i.merchant_id, n.scope))
    when starts_with(i.sender, 'producer.')
        then (case when strpos(i.merchant_id, ':') > 0 then split_part(i.merchant_id, ':', 1) else 'merchant' end, i.operation)
             in (select kind, operation from outside)
    when starts_with(i.sender, 'worker.') then i.merchant_id = 'worker:' || substr(i.sender, 8)
    when i.sender = 'repairs' and starts_with(i.merchant_id, 'processor:')
        then exists (select from attempt_outcome_proposal o
                     where o.id = split_part(i.key, ':', 2) and i.key = o.operation_id || ':' || o.id
                       and i.merchant_id = 'processor:' || o.processor and o.state in ('approved', 'recorded', 'refused'))
    when i.sender = 'parked'
        then exists (select from dead_letter d
                     where d.state = 'retried' and d.request_id = i.request_id
                       and (d.topic, d.merchant_id, d.aggregate_key) = (i.topic, i.merchant_id, i.aggregate_key))
    else exists (select from may_speak m where m.sender = i.sender and (i.merchant_id = m.scope or (right(m.scope, 1) = ':' and starts_with(i.merchant_id, m.scope))))
end
