-- The processor workers' statements (dataflows/payments/attempts/dispatch_store.py). Each is one transaction.

-- name: attempts_take
-- Every batch of events: writes down new attempts, leased by the caller where it has a free slot, and closes those that
-- the owner has settled. Primary key. Rows come in the order of operation_id, so that two workers do not deadlock.
-- A finished row is pruned some day, and the stream keeps its events for ever: what the owner calls definitive is not
-- taken on again, whatever is read. Primary key of processor_attempt, whose row is older than the event.
-- What is a person's from here on has its case in the same transaction.
with taken as (
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
        and p.status in ('authorized', 'captured', 'voided', 'refunded', 'submitted', 'declined', 'failed'))
on conflict (operation_id) do update
    set status = excluded.status, outcome = excluded.outcome, lease_owner = null, lease_until = null,
        provider_ref = coalesce(excluded.provider_ref, d.provider_ref),
        error_code = excluded.error_code, updated_at = now()
    where excluded.status in ('done', 'review') and d.status <> 'done' and d.status <> excluded.status
returning d.*
), opened as (
    insert into repair_case (id, kind, reference, processor, evidence)
    select attempt_case_id(operation_id), 'attempt_review', operation_id, processor, attempt_evidence(to_jsonb(t))
    from taken t where status = 'review'
    on conflict do nothing
)
select operation_id, status from taken;

-- name: attempts_lease
-- The sweep: takes what is due, and leases that ran out. Index attempt_dispatch_due. The answer tells what was in doubt
-- before this lease; the row itself is in doubt from here on, because the caller may be killed at any moment. How old an
-- attempt is, this clock says, and no caller's. Evidence and
-- what the payer is told are read where they lie: while the attempt is open nobody can change them, and every send says the
-- same. Unique index of dispute, primary key of payment_intent. Last, whether its payment was canceled meanwhile.
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
    d.parent_ref, d.final, d.merchant_id, d.trace_id, d.send_count, d.unknown_count, due.in_doubt,
    extract(epoch from now() - d.first_at)::float8,
    case when d.kind = 'evidence' then (
        select e.evidence from dispute e where e.processor = d.processor and e.provider_ref = d.parent_ref) end,
    d.only_asked,
    case when d.kind in ('authorize', 'purchase') then (
        select json_strip_nulls(json_build_object('description', i.description, 'receipt_email', i.receipt_email,
            'statement_descriptor', i.statement_descriptor, 'return_url', i.return_url))::text
        from payment_intent i where i.id = d.intent_id) end,
    coalesce(d.kind in ('authorize', 'purchase') and (
        select i.state = 'canceled' from payment_intent i where i.id = d.intent_id), false);

-- name: attempts_due
-- In place of both sweeps while there is nothing to carry out: of these processors those that have due attempts, and
-- whether a fact is late. Indexes attempt_dispatch_due, attempt_dispatch_unconfirmed.
select array(select p.name from unnest(%(processors)s::text[]) p (name)
             where exists (select from attempt_dispatch
                           where status in ('waiting', 'leased') and processor = p.name and next_at <= now())),
    exists (select from attempt_dispatch where status = 'reported' and next_at <= now());

-- name: attempts_record
-- After the facts of a batch are durable in Kafka. Primary key. A definitive outcome is true whoever holds the lease by now;
-- a postponement only counts while the lease is still ours, and the same one: a worker that slept through a lease of its
-- own may hold the next one by now, and must not say of that one that nothing was sent.
update attempt_dispatch d
set status = o.status, in_doubt = o.in_doubt, unknown_count = d.unknown_count + o.unknowns,
    next_at = now() + o.delay_ms * interval '1 millisecond', lease_owner = null, lease_until = null,
    outcome = coalesce(nullif(o.outcome, ''), d.outcome),
    provider_ref = coalesce(nullif(o.provider_ref, ''), d.provider_ref),
    outcome_amount = nullif(o.amount, -1), outcome_currency = nullif(o.currency, ''),
    error_code = nullif(o.error_code, ''), updated_at = now()
from unnest(%(operation_id)s::text[], %(status)s::text[], %(in_doubt)s::boolean[], %(unknowns)s::int[], %(delay_ms)s::bigint[],
        %(outcome)s::text[], %(provider_ref)s::text[], %(amount)s::bigint[], %(currency)s::text[], %(error_code)s::text[],
        %(send_count)s::int[])
    as o (operation_id, status, in_doubt, unknowns, delay_ms, outcome, provider_ref, amount, currency, error_code,
        send_count)
where d.operation_id = o.operation_id
    and ((o.status = 'reported' and d.status in ('waiting', 'leased'))
        or (o.status in ('waiting', 'review') and d.status = 'leased' and d.lease_owner = %(worker)s and d.send_count = o.send_count));

-- name: attempts_give_up
-- With every sweep: attempts that never left us (whoever leased them proved it) and that need not wait any longer. From
-- this commit on no worker sends them, so a fact told after it can never be wrong; a worker that dies before it tells
-- leaves that to attempts_repeat. Only what begins a payment may be served elsewhere, and not while another worker reaches
-- its processor: that one carries it out. Index attempt_dispatch_due, primary key of processor_health_report.
with over as (
    select operation_id from attempt_dispatch
    where status = 'waiting' and processor = %(processor)s and not in_doubt
        and ((%(is_away)s and parent_ref is null and kind in ('authorize', 'purchase')
              and first_at < now() - %(unavailable_s)s * interval '1 second'
              and not exists (
                  select from processor_health_report r
                  where r.processor = %(processor)s and r.worker <> %(worker)s and r.breaker <> 'open'
                      and r.succeeded + r.declined > 0 and r.as_of >= now() - %(kept_s)s * interval '1 second'))
            or first_at < now() - %(unreachable_s)s * interval '1 second')
    order by next_at limit %(count)s
    for update skip locked
)
update attempt_dispatch d
set status = 'reported', outcome = 'failed', updated_at = now(),
    error_code = case when %(is_away)s then 'processor_unavailable' else 'processor_unreachable' end,
    next_at = now() + %(confirm_s)s * interval '1 second'
from over where d.operation_id = over.operation_id
returning d.operation_id, d.intent_id, d.attempt, d.processor, d.trace_id, d.status, d.outcome, d.provider_ref,
    d.outcome_amount, d.outcome_currency, d.error_code, d.send_count;

-- name: attempts_repeat
-- About once a second: facts whose event did not come back in time. Index attempt_dispatch_unconfirmed. Past the schedule
-- the fact stays durable in Kafka, and a person sees the row; the event, should it come, still closes it.
with late as (
    select operation_id, report_count from attempt_dispatch
    where status = 'reported' and next_at <= now()
    order by next_at limit %(count)s
    for update skip locked
), again as (
    update attempt_dispatch d
    set report_count = d.report_count + 1, updated_at = now(),
        status = case when late.report_count < %(repeats_max)s then 'reported' else 'review' end,
        next_at = now() + (%(schedule_s)s::int[])[least(late.report_count + 1, %(repeats_max)s)] * interval '1 second'
    from late where d.operation_id = late.operation_id
    returning d.*
), opened as (
    insert into repair_case (id, kind, reference, processor, evidence)
    select attempt_case_id(operation_id), 'attempt_review', operation_id, processor, attempt_evidence(to_jsonb(a))
    from again a where status = 'review'
    on conflict do nothing
)
select operation_id, intent_id, attempt, processor, trace_id, status, outcome, provider_ref, outcome_amount,
    outcome_currency, error_code, send_count
from again;

-- name: attempt_reviews_end
-- Every few seconds: a late fact ended what waited for a person. One that somebody works on already stays. Index
-- repair_case_open, of which there is no more than people can work on.
update repair_case c
set state = 'resolved', resolved_at = clock_timestamp(), resolved_by = 'processor_worker',
    note = 'the attempt came to its end: ' || coalesce(d.outcome, 'settled')
from attempt_dispatch d
where c.kind = 'attempt_review' and c.state = 'open' and d.operation_id = c.reference and d.status = 'done';

-- name: processor_health_tell
-- At most once a second: what this worker saw, and the sum over all workers that told lately. Primary keys. A processor
-- is as reachable as it is for the worker that reaches it best.
with told as (
    insert into processor_health_report as r (processor, worker, as_of, succeeded, declined, failed, unknown, breaker)
    select t.processor, %(worker)s, now(), t.succeeded, t.declined, t.failed, t.unknown, t.breaker
    from unnest(%(processor)s::text[], %(succeeded)s::bigint[], %(declined)s::bigint[], %(failed)s::bigint[],
            %(unknown)s::bigint[], %(breaker)s::text[]) as t (processor, succeeded, declined, failed, unknown, breaker)
    order by t.processor
    on conflict (processor, worker) do update
        set as_of = excluded.as_of, succeeded = excluded.succeeded, declined = excluded.declined,
            failed = excluded.failed, unknown = excluded.unknown, breaker = excluded.breaker
    returning r.*
), gone as (
    delete from processor_health_report
    where worker <> %(worker)s and as_of < now() - %(window_s)s * interval '1 second'
), known as (
    select * from told
    union all
    select r.* from processor_health_report r
    where r.worker <> %(worker)s and r.processor = any(%(processor)s::text[])
        and r.as_of >= now() - %(kept_s)s * interval '1 second'
)
insert into processor_health as h (processor, as_of, window_s, succeeded, declined, failed, unknown, breaker)
select processor, now(), %(window_s)s, sum(succeeded), sum(declined), sum(failed), sum(unknown),
    (array['closed', 'half_open', 'open'])[min(array_position(array['closed', 'half_open', 'open'], breaker))]
from known group by processor order by processor
on conflict (processor) do update
    set as_of = excluded.as_of, window_s = excluded.window_s, succeeded = excluded.succeeded,
        declined = excluded.declined, failed = excluded.failed, unknown = excluded.unknown, breaker = excluded.breaker;

-- name: attempts_prune
-- Once a minute, again at once while it finds a full batch: rows that were finished long ago. Index attempt_dispatch_done.
with old as (
    select operation_id from attempt_dispatch
    where status = 'done' and updated_at < now() - %(kept_s)s * interval '1 second'
    order by updated_at limit %(count)s
    for update skip locked
), gone as (
    delete from attempt_dispatch d using old where d.operation_id = old.operation_id
    returning d.processor, d.provider_ref, d.intent_id, d.kind
), named as (
    -- disputes of these processors name only their own charge, and come months later
    insert into charge_name (processor, provider_ref, intent_id)
    select processor, provider_ref, intent_id from gone
    where kind in ('authorize', 'purchase') and provider_ref is not null
        and split_part(processor, '_', 1) = any(%(named_by_charge)s::text[])
    on conflict do nothing
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
