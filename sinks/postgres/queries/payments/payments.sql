-- What the payments owner reads and writes in a batch. Each names its index.

-- name: intents_read
-- The aggregates of a batch, each with its refunds and disputes as JSON of the records' own fields. Primary key;
-- refund_of_intent and dispute_of_intent, only for payments that were tried at a processor.
select {{read PaymentIntent i}},
       case when i.latest_attempt > 0 then (
           select json_agg(json_build_object({{json Refund r}}))::text from refund r where r.intent_id = i.id) end,
       case when i.latest_attempt > 0 then (
           select json_agg(json_build_object({{json Dispute d}}))::text from dispute d where d.intent_id = i.id) end,
       i.partition
from payment_intent i where i.id = any (%s::text[]);

-- name: attempts_read
-- All attempts of those aggregates. Primary key prefix.
select {{read ProcessorAttempt a}} from processor_attempt a where a.intent_id = any (%s::text[]);

-- name: journals_read
-- Which of these journal entries exist. Primary key.
select id from journal_entry where id = any (%s::text[]);

-- name: proposals_read
-- What two persons approved and is not known to be posted, among the references of a batch's repairs. Primary key.
select id, template, entries, note, author, decided_by from repair_proposal
where id = any (%s::text[]) and state = 'approved';

-- name: outcomes_read
-- What two persons approved of attempts and is not known to be recorded, among what a batch says is vouched for. Primary key.
select id, operation_id, intent_id, attempt, processor, fact from attempt_outcome_proposal
where id = any (%s::text[]) and state = 'approved';

-- name: chain_read
-- On take-over: the newest link of the partition's ledger chain. Primary key, from the right.
select link, hash from ledger_chain where partition = %s order by link desc limit 1;

-- name: intents_insert
-- Intents that the batch created. An id that exists fails the batch: nothing is overwritten.
insert into payment_intent (partition, {{names PaymentIntent insert}})
select t.partition, {{values PaymentIntent insert}}
from unnest(%s::int[], {{arrays PaymentIntent insert}}) as t (partition, {{names PaymentIntent insert}});

-- name: intents_update
-- Compare-and-set against the versions read. A miss divides by zero, so the commit queued behind it does nothing.
with written as (
    update payment_intent a
    set {{sets PaymentIntent update}}
    from unnest(%s::bigint[], {{arrays PaymentIntent update}}) as t (read_version, {{names PaymentIntent update}})
    where a.id = t.id and a.version = t.read_version
    returning 1
)
select 1 / (count(*) = %s)::int from written;

-- name: intents_amend
-- Only in a batch that has one, behind the statement that wrote these versions: what was agreed on became another, more is
-- held, or a payment went further in the batch that made it than its insert can say. Primary key.
with written as (
    update payment_intent a
    set {{sets PaymentIntent amend}}
    from unnest({{arrays PaymentIntent amend}}) as t ({{names PaymentIntent amend}})
    where a.id = t.id and a.version = t.version
    returning 1
)
select 1 / (count(*) = %s)::int from written;

-- name: attempts_insert
-- Attempts that the batch started: durable before any I/O. A second live charge of an intent fails (invariant 9).
insert into processor_attempt ({{names ProcessorAttempt insert}})
select {{values ProcessorAttempt insert}}
from unnest({{arrays ProcessorAttempt insert}}) as t ({{names ProcessorAttempt insert}});

-- name: attempts_update
-- Attempts have no version of their own: their intent's compare-and-set guards them. Primary key.
with written as (
    update processor_attempt a
    set {{sets ProcessorAttempt update}}
    from unnest({{arrays ProcessorAttempt update}}) as t ({{names ProcessorAttempt update}})
    where a.intent_id = t.intent_id and a.attempt = t.attempt
    returning 1
)
select 1 / (count(*) = %s)::int from written;

-- name: refunds_insert
-- Refunds that the batch made. Their intent's compare-and-set guards them, as it guards all its parts. Primary key.
insert into refund ({{names Refund insert}})
select {{values Refund insert}}
from unnest({{arrays Refund insert}}) as t ({{names Refund insert}});

-- name: refunds_update
-- What a fact may change of a refund. Primary key.
with written as (
    update refund a
    set {{sets Refund update}}
    from unnest({{arrays Refund update}}) as t ({{names Refund update}})
    where a.id = t.id
    returning 1
)
select 1 / (count(*) = %s)::int from written;

-- name: disputes_insert
-- Disputes that the batch heard of for the first time. Primary key, and unique (processor, provider_ref).
insert into dispute ({{names Dispute insert}})
select {{values Dispute insert}}
from unnest({{arrays Dispute insert}}) as t ({{names Dispute insert}});

-- name: disputes_update
-- What a fact may change of a dispute. Primary key.
with written as (
    update dispute a
    set {{sets Dispute update}}
    from unnest({{arrays Dispute update}}) as t ({{names Dispute update}})
    where a.id = t.id
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
insert into ledger_txn (txn_id, reference, kind, aggregate_key, trace_id, partition, effective_at)
select t.txn_id, t.reference, t.kind, t.aggregate_key, t.trace_id, t.partition, t.effective_at
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
