-- The webhook worker's statements (dataflows/payments/webhooks/inbox_store.py).

-- name: events_claim
-- Every round: takes due events of the inbox and makes them due again a little later, so that a worker that is killed loses
-- nothing and two workers do not look at the same one. Index provider_event_due.
with due as (
    select processor, provider_event_id from provider_event
    where state in ('stored', 'parked') and next_at <= now()
    order by next_at limit %(count)s
    for update skip locked
)
update provider_event e
set tries = e.tries + 1,
    next_at = now() + (%(schedule_ms)s::bigint[])[least(e.tries + 1, %(tries_max)s)] * interval '1 millisecond'
from due where e.processor = due.processor and e.provider_event_id = due.provider_event_id
returning e.received_at, e.processor, e.provider_event_id, e.event_type, e.body, e.tries,
    e.note, extract(epoch from now() - e.received_at)::float8;

-- name: payments_named
-- Rounds with disputes that carry nothing of ours: whose charge it is. Index attempt_dispatch_provider_ref, and the primary
-- key of charge_name, where the name stays when the dispatch row leaves: disputes come months later.
select w.processor, w.provider_ref, coalesce(k.intent_id, d.intent_id)
from unnest(%(processors)s::text[], %(provider_refs)s::text[]) as w (processor, provider_ref)
left join charge_name k on k.processor = w.processor and k.provider_ref = w.provider_ref
left join lateral (
    select intent_id from attempt_dispatch a
    where a.provider_ref = w.provider_ref and a.processor = w.processor and a.kind in ('authorize', 'purchase')
    limit 1) d on true
where coalesce(k.intent_id, d.intent_id) is not null;

-- name: intents_seen
-- Every round: the payments that events speak of. Primary key.
select id, processor, amount_received from payment_intent where id = any(%(intents)s::text[]);

-- name: attempts_seen
-- Every round: their attempts. Primary key (intent_id, attempt).
select intent_id, attempt, operation_id, kind, status, processor from processor_attempt
where intent_id = any(%(intents)s::text[]);

-- name: decisions_seen
-- Every round, after the attempts: which facts are decided, and the code of a refusal. Primary key.
select i.merchant_id, i.key,
    case when i.status = 'refused' then convert_from(i.response, 'UTF8')::jsonb ->> 'code' end
from unnest(%(scopes)s::text[], %(keys)s::text[]) as w (scope, key)
join idempotency i on i.merchant_id = w.scope and i.key = w.key;

-- name: holds_overdue
-- Every second: holds whose time is over and whose release no owner decided on in this period, behind a place in their
-- order: those of an owner that is halted hide no others (index payment_intent_hold_ends, primary keys of
-- processor_attempt and idempotency). Past the tries people have its case.
select i.id, a.processor, a.operation_id, (extract(epoch from i.authorized_until) * 1000000)::bigint, p.period
from payment_intent i
join processor_attempt a on a.intent_id = i.id and a.kind = 'authorize' and a.status = 'authorized'
cross join lateral (
    select (extract(epoch from now() - i.authorized_until)::bigint / %(retry_s)s::bigint) as period) p
where (i.authorized_until, i.id) > (timestamptz 'epoch' + %(until)s::bigint * interval '1 microsecond', %(intent_id)s)
    and i.authorized_until < now() - %(grace_s)s::int * interval '1 second'
    and i.authorized_until > now() - %(tries_max)s::int * %(retry_s)s::int * interval '1 second'
    and i.state in ('requires_capture', 'canceled') and i.amount_capturable > 0
    and not exists (
        select from idempotency d
        where d.merchant_id = 'processor:' || a.processor and d.key = a.operation_id || ':release:' || p.period)
order by i.authorized_until, i.id limit %(count)s;

-- name: holds_given_up
-- Every minute: one case, and once, for each hold whose release was asked for in vain to the last. Indexes
-- payment_intent_hold_ends, repair_case_hold_not_released.
insert into repair_case (id, kind, reference, processor, evidence)
select attempt_case_id(a.operation_id), 'hold_not_released', a.operation_id, a.processor,
       jsonb_build_object('payment_intent', i.id, 'amount', i.amount_capturable, 'currency', i.currency,
                          'authorized_until', i.authorized_until)
from payment_intent i
join processor_attempt a on a.intent_id = i.id and a.kind = 'authorize' and a.status = 'authorized'
where i.authorized_until <= now() - %(tries_max)s::int * %(retry_s)s::int * interval '1 second'
    and i.state in ('requires_capture', 'canceled') and i.amount_capturable > 0
    and not exists (
        select from repair_case c where c.kind = 'hold_not_released' and c.reference = a.operation_id)
order by i.authorized_until, i.id limit %(count)s
on conflict do nothing
returning reference;

-- name: cases_open
-- With events_record, in one transaction: one open case for each kind and reference, whatever repeats it.
insert into repair_case (id, kind, reference, processor, evidence)
select c.id, c.kind, c.reference, c.processor, c.evidence::jsonb
from unnest(%(ids)s::text[], %(kinds)s::text[], %(references)s::text[], %(processors)s::text[], %(evidence)s::text[])
    as c (id, kind, reference, processor, evidence)
order by c.kind, c.reference
on conflict do nothing;

-- name: events_record
-- After the facts of a round are durable in Kafka. Primary key. What is settled stays settled.
update provider_event e
set state = o.state, note = o.note, settled_at = case when o.state in ('applied', 'superseded', 'case') then now() end
from unnest(%(processors)s::text[], %(provider_event_ids)s::text[], %(states)s::text[], %(notes)s::text[])
    as o (processor, provider_event_id, state, note)
where e.processor = o.processor and e.provider_event_id = o.provider_event_id and e.state in ('stored', 'parked');

-- name: events_prune
-- Every minute, again in the next round while it finds a full batch: what was settled longer ago than any processor sends it
-- again. A copy that comes later still is another event of the same fact, which the owner knows. Index provider_event_old.
delete from provider_event where (processor, provider_event_id) in (
    select processor, provider_event_id from provider_event
    where state in ('applied', 'superseded') and settled_at < now() - %(kept_s)s * interval '1 second'
    order by settled_at limit %(count)s
    for update skip locked);

-- name: events_backlog
-- Metrics, every few seconds. Index provider_event_due.
select state, count(*), extract(epoch from now() - min(received_at))::float8
from provider_event where state in ('stored', 'parked') group by state;
