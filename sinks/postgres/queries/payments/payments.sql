-- What the payments owner reads and writes in a batch. Each names its index.

-- name: intents_read
-- The aggregates of a batch, each with its refunds and disputes as JSON of the records' own fields. Primary key;
-- refund_of_intent and dispute_of_intent, only for payments that were tried at a processor.
select i.id, i.merchant_id, i.amount, i.currency, i.state, i.version, i.capture_method, i.payment_method, i.processor,
       i.amount_capturable, i.amount_received, i.amount_refunded, i.amount_disputed, i.last_payment_error,
       i.cancellation_reason, i.latest_attempt, i.metadata, (extract(epoch from i.created_at) * 1000000)::bigint,
       (extract(epoch from i.updated_at) * 1000000)::bigint, i.amount_pending, i.next_action,
       (extract(epoch from i.authorized_until) * 1000000)::bigint,
       case when i.latest_attempt > 0 then (
           select json_agg(json_build_object(
               'id', r.id, 'intent_id', r.intent_id, 'merchant_id', r.merchant_id, 'attempt', r.attempt,
               'amount', r.amount, 'currency', r.currency, 'state', r.state, 'reason', r.reason,
               'failure_reason', r.failure_reason, 'from_pending', r.from_pending, 'metadata', r.metadata::json,
               'version', r.version, 'created_at', (extract(epoch from r.created_at) * 1000000)::bigint,
               'updated_at', (extract(epoch from r.updated_at) * 1000000)::bigint,
               'pending_reason', r.pending_reason))::text
           from refund r where r.intent_id = i.id) end,
       case when i.latest_attempt > 0 then (
           select json_agg(json_build_object(
               'id', d.id, 'intent_id', d.intent_id, 'merchant_id', d.merchant_id, 'processor', d.processor,
               'provider_ref', d.provider_ref, 'amount', d.amount, 'currency', d.currency, 'fee', d.fee,
               'reason', d.reason, 'state', d.state, 'funds', d.funds, 'version', d.version,
               'created_at', (extract(epoch from d.created_at) * 1000000)::bigint,
               'updated_at', (extract(epoch from d.updated_at) * 1000000)::bigint,
               'evidence', d.evidence::json, 'evidence_state', d.evidence_state))::text
           from dispute d where d.intent_id = i.id) end,
       i.partition
from payment_intent i where i.id = any (%s::text[]);

-- name: attempts_read
-- All attempts of those aggregates. Primary key prefix.
select intent_id, attempt, kind, status, operation_id, processor, amount, currency, payment_method, parent_ref, final,
       provider_ref, error_code, (extract(epoch from created_at) * 1000000)::bigint,
       (extract(epoch from updated_at) * 1000000)::bigint, settled_line, route
from processor_attempt where intent_id = any (%s::text[]);

-- name: journals_read
-- Which of these journal entries exist. Primary key.
select id from journal_entry where id = any (%s::text[]);

-- name: chain_read
-- On take-over: the newest link of the partition's ledger chain. Primary key, from the right.
select link, hash from ledger_chain where partition = %s order by link desc limit 1;

-- name: intents_insert
-- Intents that the batch created. An id that exists fails the batch: nothing is overwritten.
insert into payment_intent (id, merchant_id, amount, currency, state, version, capture_method, payment_method, processor,
                            amount_capturable, amount_received, amount_refunded, amount_disputed, last_payment_error,
                            cancellation_reason, latest_attempt, metadata, partition, created_at, updated_at,
                            amount_pending)
select t.id, t.merchant_id, t.amount, t.currency, t.state, t.version, t.capture_method, nullif(t.payment_method, ''),
       t.processor, t.amount_capturable, t.amount_received, t.amount_refunded, t.amount_disputed,
       nullif(t.last_payment_error, ''), nullif(t.cancellation_reason, ''), t.latest_attempt, t.metadata, t.partition, t.created_at, t.updated_at,
       t.amount_pending
from unnest(%s::int[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[],
            %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::int[],
            %s::text[], %s::timestamptz[], %s::timestamptz[], %s::bigint[])
         as t (partition, id, merchant_id, amount, currency, state, version, capture_method, payment_method, processor,
               amount_capturable, amount_received, amount_refunded, amount_disputed, last_payment_error,
               cancellation_reason, latest_attempt, metadata, created_at, updated_at, amount_pending);

-- name: intents_update
-- Compare-and-set against the versions read. A miss divides by zero, so the commit queued behind it does nothing.
with written as (
    update payment_intent a
    set state = t.state, version = t.version, payment_method = nullif(t.payment_method, ''),
        processor = t.processor, amount_capturable = t.amount_capturable, amount_received = t.amount_received,
        amount_refunded = t.amount_refunded, amount_disputed = t.amount_disputed,
        last_payment_error = nullif(t.last_payment_error, ''),
        cancellation_reason = nullif(t.cancellation_reason, ''), latest_attempt = t.latest_attempt,
        updated_at = t.updated_at, amount_pending = t.amount_pending,
        next_action = nullif(t.next_action, ''),
        authorized_until = timestamptz 'epoch' + nullif(t.authorized_until, 0) * interval '1 microsecond'
    from unnest(%s::text[], %s::bigint[], %s::text[], %s::bigint[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[],
                %s::bigint[], %s::text[], %s::text[], %s::int[], %s::timestamptz[], %s::bigint[], %s::text[], %s::text[],
                %s::bigint[])
             as t (id, read_version, state, version, payment_method, amount_capturable, amount_received, amount_refunded,
                   amount_disputed, last_payment_error, cancellation_reason, latest_attempt, updated_at, amount_pending,
                   processor, next_action, authorized_until)
    where a.id = t.id and a.version = t.read_version
    returning 1
)
select 1 / (count(*) = %s)::int from written;

-- name: intents_amend
-- Only in a batch that has one, behind the statement that wrote these versions: what was agreed on became another, more is
-- held, or a payment went further in the batch that made it than its insert can say. Primary key.
with written as (
    update payment_intent a
    set amount = t.amount, currency = t.currency, capture_method = t.capture_method, metadata = t.metadata,
        next_action = nullif(t.next_action, ''),
        authorized_until = timestamptz 'epoch' + nullif(t.authorized_until, 0) * interval '1 microsecond'
    from unnest(%s::text[], %s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[])
             as t (id, version, amount, currency, capture_method, metadata, next_action, authorized_until)
    where a.id = t.id and a.version = t.version
    returning 1
)
select 1 / (count(*) = %s)::int from written;

-- name: attempts_insert
-- Attempts that the batch started: durable before any I/O. A second live charge of an intent fails (invariant 9).
insert into processor_attempt (intent_id, attempt, kind, status, operation_id, processor, amount, currency,
                               payment_method, parent_ref, final, provider_ref, error_code, created_at, updated_at,
                               settled_line, route)
select t.intent_id, t.attempt, t.kind, t.status, t.operation_id, t.processor, t.amount, t.currency, t.payment_method,
       nullif(t.parent_ref, ''), t.final, nullif(t.provider_ref, ''), nullif(t.error_code, ''),
       t.created_at, t.updated_at, nullif(t.settled_line, ''), nullif(t.route, '')
from unnest(%s::text[], %s::int[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[],
            %s::text[], %s::boolean[], %s::text[], %s::text[], %s::timestamptz[], %s::timestamptz[], %s::text[], %s::text[])
         as t (intent_id, attempt, kind, status, operation_id, processor, amount, currency, payment_method, parent_ref,
               final, provider_ref, error_code, created_at, updated_at, settled_line, route);

-- name: attempts_update
-- Attempts have no version of their own: their intent's compare-and-set guards them. Primary key.
with written as (
    update processor_attempt a
    set status = t.status, provider_ref = nullif(t.provider_ref, ''), error_code = nullif(t.error_code, ''),
        updated_at = t.updated_at, final = t.final,
        settled_line = nullif(t.settled_line, '')
    from unnest(%s::text[], %s::int[], %s::text[], %s::text[], %s::text[], %s::timestamptz[], %s::boolean[], %s::text[])
             as t (intent_id, attempt, status, provider_ref, error_code, updated_at, final, settled_line)
    where a.intent_id = t.intent_id and a.attempt = t.attempt
    returning 1
)
select 1 / (count(*) = %s)::int from written;

-- name: refunds_insert
-- Refunds that the batch made. Their intent's compare-and-set guards them, as it guards all its parts. Primary key.
insert into refund (id, intent_id, merchant_id, attempt, amount, currency, state, reason, failure_reason, from_pending,
                    metadata, version, created_at, updated_at, pending_reason)
select t.id, t.intent_id, t.merchant_id, t.attempt, t.amount, t.currency, t.state, nullif(t.reason, ''),
       nullif(t.failure_reason, ''), t.from_pending, t.metadata, t.version,
       timestamptz 'epoch' + t.created_at * interval '1 microsecond',
       timestamptz 'epoch' + t.updated_at * interval '1 microsecond', nullif(t.pending_reason, '')
from unnest(%s::text[], %s::text[], %s::text[], %s::int[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[],
            %s::bigint[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[])
         as t (id, intent_id, merchant_id, attempt, amount, currency, state, reason, failure_reason, from_pending,
               metadata, version, created_at, updated_at, pending_reason);

-- name: refunds_update
-- What a fact may change of a refund. Primary key.
with written as (
    update refund r
    set state = t.state, failure_reason = nullif(t.failure_reason, ''), from_pending = t.from_pending,
        version = t.version, updated_at = timestamptz 'epoch' + t.updated_at * interval '1 microsecond',
        pending_reason = nullif(t.pending_reason, '')
    from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[])
             as t (id, state, failure_reason, from_pending, version, updated_at, pending_reason)
    where r.id = t.id
    returning 1
)
select 1 / (count(*) = %s)::int from written;

-- name: disputes_insert
-- Disputes that the batch heard of for the first time. Primary key, and unique (processor, provider_ref).
insert into dispute (id, intent_id, merchant_id, processor, provider_ref, amount, currency, fee, reason, state, funds,
                     version, created_at, updated_at)
select t.id, t.intent_id, t.merchant_id, t.processor, t.provider_ref, t.amount, t.currency, t.fee, nullif(t.reason, ''),
       t.state, t.funds, t.version, timestamptz 'epoch' + t.created_at * interval '1 microsecond',
       timestamptz 'epoch' + t.updated_at * interval '1 microsecond'
from unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::bigint[],
            %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[])
         as t (id, intent_id, merchant_id, processor, provider_ref, amount, currency, fee, reason, state, funds, version,
               created_at, updated_at);

-- name: disputes_update
-- What a fact may change of a dispute. Primary key.
with written as (
    update dispute d
    set state = t.state, funds = t.funds, fee = t.fee, reason = nullif(t.reason, ''), version = t.version,
        evidence = nullif(t.evidence, ''), evidence_state = nullif(t.evidence_state, ''),
        updated_at = timestamptz 'epoch' + t.updated_at * interval '1 microsecond'
    from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::bigint[], %s::bigint[],
                %s::text[], %s::text[])
             as t (id, state, funds, fee, reason, version, updated_at, evidence, evidence_state)
    where d.id = t.id
    returning 1
)
select 1 / (count(*) = %s)::int from written;

-- name: assessments_insert
-- What was said of confirms in the batch: one row for each decision. Primary key.
insert into risk_assessment (intent_id, attempt, decided_by, outcome, score, policy_version, reasons, created_at)
select t.intent_id, t.attempt, t.decided_by, t.outcome, t.score, t.policy_version, t.reasons,
       timestamptz 'epoch' + t.created_at * interval '1 microsecond'
from unnest(%s::text[], %s::int[], %s::text[], %s::text[], %s::int[], %s::int[], %s::text[], %s::bigint[])
         as t (intent_id, attempt, decided_by, outcome, score, policy_version, reasons, created_at);

-- name: review_cases_open
-- Payments that began to wait for a review. repair_case_open.
insert into repair_case (id, kind, reference, evidence, opened_at)
select t.id, %s, t.reference, t.evidence::jsonb, timestamptz 'epoch' + t.opened_at * interval '1 microsecond'
from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[]) as t (id, reference, evidence, opened_at)
on conflict (kind, reference) where state <> 'resolved' do nothing;

-- name: review_cases_close
-- Payments that wait no longer. repair_case_open.
update repair_case c
set state = 'resolved', resolved_at = timestamptz 'epoch' + t.resolved_at * interval '1 microsecond',
    resolved_by = t.resolved_by, note = t.note
from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[]) as t (reference, resolved_by, note, resolved_at)
where c.kind = %s and c.reference = t.reference and c.state <> 'resolved';

-- name: contradictions_open
-- Facts about money that were refused because they contradict what is committed, and money that came for canceled
-- payments. repair_case_open.
insert into repair_case (id, kind, reference, processor, evidence, opened_at)
select t.id, %s, t.reference, t.processor, t.evidence::jsonb, timestamptz 'epoch' + t.opened_at * interval '1 microsecond'
from unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[]) as t (id, reference, processor, evidence, opened_at)
on conflict do nothing;

-- name: journals_insert
-- Journal entries: aggregates of one version. A reference that exists fails the batch. Primary key.
insert into journal_entry (id, reference, kind, note, scope, partition, created_at)
select t.id, t.reference, t.kind, nullif(t.note, ''), t.scope, t.partition,
       timestamptz 'epoch' + t.created_at * interval '1 microsecond'
from unnest(%s::int[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[])
         as t (partition, id, reference, kind, note, scope, created_at);

-- name: ledger_txns_insert
-- The batch's ledger transactions. The unique reference refuses a fact that was posted before.
insert into ledger_txn (txn_id, reference, kind, aggregate_key, trace_id, partition, effective_at, recorded_at)
select t.txn_id, t.reference, t.kind, t.aggregate_key, t.trace_id, t.partition, t.effective_at, clock_timestamp()
from unnest(%s::int[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::timestamptz[])
         as t (partition, txn_id, reference, kind, aggregate_key, trace_id, effective_at);

-- name: ledger_entries_insert
-- All their lines at once: the trigger checks the balance over the whole statement.
insert into ledger_entry (txn_id, line, account_id, debit, credit, currency, effective_at)
select t.txn_id, t.line, t.account_id, t.debit, t.credit, t.currency, t.effective_at
from unnest(%s::bigint[], %s::int[], %s::text[], %s::bigint[], %s::bigint[], %s::text[], %s::timestamptz[])
         as t (txn_id, line, account_id, debit, credit, currency, effective_at);

-- name: ledger_chain_insert
-- One link for each partition over everything that it posted. Primary key, appended on the right.
insert into ledger_chain (partition, link, first_txn, last_txn, txns, prev_hash, hash)
select t.partition, t.link, t.first_txn, t.last_txn, t.txns, t.prev_hash, t.hash
from unnest(%s::int[], %s::bigint[], %s::bigint[], %s::bigint[], %s::int[], %s::bytea[], %s::bytea[])
         as t (partition, link, first_txn, last_txn, txns, prev_hash, hash);

-- name: balances_add
-- One row per account and partition: no other owner ever waits for it. Primary key.
insert into account_balance as b (account_id, partition, currency, debits, credits, version)
select t.account_id, t.partition, t.currency, t.debits, t.credits, t.entries
from unnest(%s::int[], %s::text[], %s::text[], %s::numeric[], %s::numeric[], %s::bigint[])
         as t (partition, account_id, currency, debits, credits, entries)
on conflict (account_id, partition) do update
    set debits = b.debits + excluded.debits, credits = b.credits + excluded.credits, version = b.version + excluded.version;
