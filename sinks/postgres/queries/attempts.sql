-- The processor workers' statements (dataflows/payments/attempts/dispatch_store.py). Each is one transaction.

-- name: attempts_take
-- Every batch of events: writes down new attempts, leased by the caller where it has a free slot, and closes those that
-- the owner has settled. Primary key. Rows come in the order of operation_id, so that two workers do not deadlock.
-- A finished row is pruned some day, and the stream keeps its events for ever: what the owner calls definitive is not
-- taken on again, whatever is read. Primary key of processor_attempt, whose row is older than the event.
insert into attempt_dispatch as d (operation_id, intent_id, attempt, processor, kind, amount, currency, payment_method,
    parent_ref, final, merchant_id, trace_id, status, in_doubt, lease_owner, lease_until, send_count, next_at,
    outcome, provider_ref, error_code, first_at, updated_at)
select e.operation_id, e.intent_id, e.attempt, e.processor, e.kind, e.amount, e.currency, e.payment_method,
    nullif(e.parent_ref, ''), e.final, e.merchant_id, e.trace_id, e.status, e.status = 'leased',
    case when e.status = 'leased' then %(worker)s end,
    case when e.status = 'leased' then now() + %(lease_ms)s * interval '1 millisecond' end,
    (e.status = 'leased')::int,
    case when e.status = 'leased' then now() + %(lease_ms)s * interval '1 millisecond' else now() end,
    nullif(e.outcome, ''), nullif(e.provider_ref, ''), nullif(e.error_code, ''), now(), now()
from unnest(%(operation_id)s::text[], %(intent_id)s::text[], %(attempt)s::int[], %(processor)s::text[], %(kind)s::text[],
        %(amount)s::bigint[], %(currency)s::text[], %(payment_method)s::text[], %(parent_ref)s::text[],
        %(final)s::boolean[], %(merchant_id)s::text[], %(trace_id)s::text[], %(status)s::text[], %(outcome)s::text[],
        %(provider_ref)s::text[], %(error_code)s::text[])
    as e (operation_id, intent_id, attempt, processor, kind, amount, currency, payment_method, parent_ref, final,
        merchant_id, trace_id, status, outcome, provider_ref, error_code)
where e.status = 'done' or not exists (
    select from processor_attempt p where p.intent_id = e.intent_id and p.attempt = e.attempt
        and p.status in ('authorized', 'captured', 'voided', 'refunded', 'declined', 'failed'))
on conflict (operation_id) do update
    set status = excluded.status, outcome = excluded.outcome, lease_owner = null, lease_until = null,
        provider_ref = coalesce(excluded.provider_ref, d.provider_ref),
        error_code = excluded.error_code, updated_at = now()
    where excluded.status in ('done', 'review') and d.status <> 'done' and d.status <> excluded.status
returning d.operation_id, d.status, d.first_at;

-- name: attempts_lease
-- The sweep: takes what is due, and leases that ran out. Index attempt_dispatch_due. The answer tells what was in doubt
-- before this lease; the row itself is in doubt from here on, because the caller may be killed at any moment.
with due as (
    select operation_id, in_doubt from attempt_dispatch
    where status in ('waiting', 'leased') and processor = %(processor)s and next_at <= now()
    order by next_at limit %(count)s
    for update skip locked
)
update attempt_dispatch d
set status = 'leased', in_doubt = true, lease_owner = %(worker)s, send_count = d.send_count + 1,
    lease_until = now() + %(lease_ms)s * interval '1 millisecond',
    next_at = now() + %(lease_ms)s * interval '1 millisecond', updated_at = now()
from due where d.operation_id = due.operation_id
returning d.operation_id, d.intent_id, d.attempt, d.processor, d.kind, d.amount, d.currency, d.payment_method,
    d.parent_ref, d.final, d.merchant_id, d.trace_id, d.send_count, d.unknown_count, due.in_doubt, d.first_at;

-- name: attempts_record
-- After the facts of a batch are durable in Kafka. Primary key. A definitive outcome is true whoever holds the lease by now;
-- a postponement only counts while the lease is still ours.
update attempt_dispatch d
set status = o.status, in_doubt = o.in_doubt, unknown_count = d.unknown_count + o.unknowns,
    next_at = now() + o.delay_ms * interval '1 millisecond', lease_owner = null, lease_until = null,
    outcome = coalesce(nullif(o.outcome, ''), d.outcome),
    provider_ref = coalesce(nullif(o.provider_ref, ''), d.provider_ref),
    outcome_amount = nullif(o.amount, -1), outcome_currency = nullif(o.currency, ''),
    error_code = nullif(o.error_code, ''), updated_at = now()
from unnest(%(operation_id)s::text[], %(status)s::text[], %(in_doubt)s::boolean[], %(unknowns)s::int[], %(delay_ms)s::bigint[],
        %(outcome)s::text[], %(provider_ref)s::text[], %(amount)s::bigint[], %(currency)s::text[], %(error_code)s::text[])
    as o (operation_id, status, in_doubt, unknowns, delay_ms, outcome, provider_ref, amount, currency, error_code)
where d.operation_id = o.operation_id
    and ((o.status = 'reported' and d.status in ('waiting', 'leased'))
        or (o.status = 'waiting' and d.status = 'leased' and d.lease_owner = %(worker)s));

-- name: attempts_repeat
-- About once a second: facts whose event did not come back in time. Index attempt_dispatch_unconfirmed. Past the schedule
-- the fact stays durable in Kafka, and a person sees the row; the event, should it come, still closes it.
with late as (
    select operation_id, report_count from attempt_dispatch
    where status = 'reported' and next_at <= now()
    order by next_at limit %(count)s
    for update skip locked
)
update attempt_dispatch d
set report_count = d.report_count + 1, updated_at = now(),
    status = case when late.report_count < %(repeats_max)s then 'reported' else 'review' end,
    next_at = now() + (%(schedule_s)s::int[])[least(late.report_count + 1, %(repeats_max)s)] * interval '1 second'
from late where d.operation_id = late.operation_id
returning d.operation_id, d.intent_id, d.attempt, d.processor, d.trace_id, d.status, d.outcome, d.provider_ref,
    d.outcome_amount, d.outcome_currency, d.error_code, d.send_count;

-- name: attempts_prune
-- Once a minute, again at once while it finds a full batch: rows that were finished long ago. Index attempt_dispatch_done.
with old as (
    select operation_id from attempt_dispatch
    where status = 'done' and updated_at < now() - %(kept_s)s * interval '1 second'
    order by updated_at limit %(count)s
    for update skip locked
), gone as (
    delete from attempt_dispatch d using old where d.operation_id = old.operation_id returning 1
)
select count(*) from gone;

-- name: attempts_backlog
-- Metrics, every few seconds: how many are unfinished, and the age of the oldest. One partial index each.
select 'due' as name, count(*), coalesce(extract(epoch from now() - min(first_at)), 0)::float8
from attempt_dispatch where status in ('waiting', 'leased')
union all
select 'unconfirmed', count(*), coalesce(extract(epoch from now() - min(first_at)), 0)::float8
from attempt_dispatch where status = 'reported'
union all
select 'review', count(*), coalesce(extract(epoch from now() - min(first_at)), 0)::float8
from attempt_dispatch where status = 'review';
