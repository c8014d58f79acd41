-- What the payments owner reads and writes in a batch. Each names its index.

-- name: intents_read
-- The aggregates of a batch. Primary key.
select id, merchant_id, amount, currency, state, version, capture_method, payment_method, processor, amount_capturable,
       amount_received, amount_refunded, amount_disputed, last_payment_error, cancellation_reason, latest_attempt,
       metadata, (extract(epoch from created_at) * 1000000)::bigint, (extract(epoch from updated_at) * 1000000)::bigint,
       partition
from payment_intent where id = any (%s::text[]);

-- name: attempts_read
-- All attempts of those aggregates. Primary key prefix.
select intent_id, attempt, kind, status, operation_id, processor, amount, currency, payment_method, parent_ref, final,
       provider_ref, error_code, (extract(epoch from created_at) * 1000000)::bigint,
       (extract(epoch from updated_at) * 1000000)::bigint
from processor_attempt where intent_id = any (%s::text[]);

-- name: chain_read
-- On take-over: the newest link of the partition's ledger chain. Primary key, from the right.
select link, hash from ledger_chain where partition = %s order by link desc limit 1;

-- name: intents_insert
-- Intents that the batch created. An id that exists fails the batch: nothing is overwritten.
insert into payment_intent (id, merchant_id, amount, currency, state, version, capture_method, payment_method, processor,
                            amount_capturable, amount_received, amount_refunded, amount_disputed, last_payment_error,
                            cancellation_reason, latest_attempt, metadata, partition, created_at, updated_at)
select t.id, t.merchant_id, t.amount, t.currency, t.state, t.version, t.capture_method, nullif(t.payment_method, ''),
       t.processor, t.amount_capturable, t.amount_received, t.amount_refunded, t.amount_disputed,
       nullif(t.last_payment_error, ''), nullif(t.cancellation_reason, ''), t.latest_attempt, t.metadata, %s,
       timestamptz 'epoch' + t.created_at * interval '1 microsecond',
       timestamptz 'epoch' + t.updated_at * interval '1 microsecond'
from unnest(%s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[],
            %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::int[],
            %s::text[], %s::bigint[], %s::bigint[])
         as t (id, merchant_id, amount, currency, state, version, capture_method, payment_method, processor,
               amount_capturable, amount_received, amount_refunded, amount_disputed, last_payment_error,
               cancellation_reason, latest_attempt, metadata, created_at, updated_at);

-- name: intents_update
-- Compare-and-set against the versions read. A miss divides by zero, so the commit queued behind it does nothing.
with written as (
    update payment_intent a
    set state = t.state, version = t.version, payment_method = nullif(t.payment_method, ''),
        amount_capturable = t.amount_capturable, amount_received = t.amount_received,
        amount_refunded = t.amount_refunded, amount_disputed = t.amount_disputed,
        last_payment_error = nullif(t.last_payment_error, ''),
        cancellation_reason = nullif(t.cancellation_reason, ''), latest_attempt = t.latest_attempt,
        updated_at = timestamptz 'epoch' + t.updated_at * interval '1 microsecond'
    from unnest(%s::text[], %s::bigint[], %s::text[], %s::bigint[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[],
                %s::bigint[], %s::text[], %s::text[], %s::int[], %s::bigint[])
             as t (id, read_version, state, version, payment_method, amount_capturable, amount_received, amount_refunded,
                   amount_disputed, last_payment_error, cancellation_reason, latest_attempt, updated_at)
    where a.id = t.id and a.version = t.read_version
    returning 1
)
select 1 / (count(*) = %s)::int from written;

-- name: attempts_insert
-- Attempts that the batch started: durable before any I/O. A second live charge of an intent fails (invariant 9).
insert into processor_attempt (intent_id, attempt, kind, status, operation_id, processor, amount, currency,
                               payment_method, parent_ref, final, provider_ref, error_code, created_at, updated_at)
select t.intent_id, t.attempt, t.kind, t.status, t.operation_id, t.processor, t.amount, t.currency, t.payment_method,
       nullif(t.parent_ref, ''), t.final, nullif(t.provider_ref, ''), nullif(t.error_code, ''),
       timestamptz 'epoch' + t.created_at * interval '1 microsecond',
       timestamptz 'epoch' + t.updated_at * interval '1 microsecond'
from unnest(%s::text[], %s::int[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[],
            %s::text[], %s::boolean[], %s::text[], %s::text[], %s::bigint[], %s::bigint[])
         as t (intent_id, attempt, kind, status, operation_id, processor, amount, currency, payment_method, parent_ref,
               final, provider_ref, error_code, created_at, updated_at);

-- name: attempts_update
-- Attempts have no version of their own: their intent's compare-and-set guards them. Primary key.
with written as (
    update processor_attempt a
    set status = t.status, provider_ref = nullif(t.provider_ref, ''), error_code = nullif(t.error_code, ''),
        updated_at = timestamptz 'epoch' + t.updated_at * interval '1 microsecond'
    from unnest(%s::text[], %s::int[], %s::text[], %s::text[], %s::text[], %s::bigint[])
             as t (intent_id, attempt, status, provider_ref, error_code, updated_at)
    where a.intent_id = t.intent_id and a.attempt = t.attempt
    returning 1
)
select 1 / (count(*) = %s)::int from written;

-- name: ledger_txns_insert
-- The batch's ledger transactions. The unique reference refuses a fact that was posted before.
insert into ledger_txn (txn_id, reference, kind, aggregate_key, trace_id, partition, effective_at, recorded_at)
select t.txn_id, t.reference, t.kind, t.aggregate_key, t.trace_id, %s,
       timestamptz 'epoch' + t.effective_at * interval '1 microsecond', clock_timestamp()
from unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[])
         as t (txn_id, reference, kind, aggregate_key, trace_id, effective_at);

-- name: ledger_entries_insert
-- All their lines at once: the trigger checks the balance over the whole statement.
insert into ledger_entry (txn_id, line, account_id, debit, credit, currency, effective_at)
select t.txn_id, t.line, t.account_id, t.debit, t.credit, t.currency,
       timestamptz 'epoch' + t.effective_at * interval '1 microsecond'
from unnest(%s::bigint[], %s::int[], %s::text[], %s::bigint[], %s::bigint[], %s::text[], %s::bigint[])
         as t (txn_id, line, account_id, debit, credit, currency, effective_at);

-- name: ledger_chain_insert
-- One link over everything that the batch posted. Primary key, appended on the right.
insert into ledger_chain (partition, link, first_txn, last_txn, txns, prev_hash, hash)
values (%s, %s, %s, %s, %s, %b, %b);

-- name: balances_add
-- One row per account and partition: no other owner ever waits for it. Primary key.
insert into account_balance as b (account_id, partition, currency, debits, credits, version)
select t.account_id, %s, t.currency, t.debits, t.credits, t.entries
from unnest(%s::text[], %s::text[], %s::numeric[], %s::numeric[], %s::bigint[])
         as t (account_id, currency, debits, credits, entries)
on conflict (account_id, partition) do update
    set debits = b.debits + excluded.debits, credits = b.credits + excluded.credits, version = b.version + excluded.version;
