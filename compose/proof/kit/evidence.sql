-- What the demo reads from Postgres to show and to compare; all as the reader's role.

-- name: partition_owners
-- owner_kill: who holds the partitions of the commands. Primary key.
select owner_id from partition_owner where topic = %(topic)s;

-- name: unfinished
-- settling: attempts that a worker still has to do something about, events that ClickHouse does not hold yet, and
-- webhooks that are not applied.
select
    (select count(*) from attempt_dispatch where status in ('waiting', 'leased', 'reported')) as attempts,
    (select count(*) from outbox o
     left join stream_position p on p.follower = 'clickhouse' and p.topic = o.topic and p.partition = o.partition
     where o.topic = %(topic)s and o.seq > coalesce(p.last_seq, 0)) as events,
    (select count(*) from provider_event where state in ('stored', 'parked')) as webhooks;

-- name: trial_balance
-- The sums of every kind of account per currency, from the immutable lines.
select split_part(account_id, ':', 1) as account, currency, sum(debit)::bigint as debits, sum(credit)::bigint as credits
from ledger_entry
group by 1, 2
order by 1, 2;

-- name: ledger_effects
-- What the ledger says that the processor did, by the operation that did it; to be compared with its book.
-- A purchase or a capture moves money to the receivable, a refund from it; an authorization holds, a void releases.
-- A refund that came back is in neither book.
select split_part(t.reference, ':', 1) as operation_id,
       t.kind,
       t.aggregate_key as reference,
       e.currency,
       sum(case when t.kind in ('void', 'refund_succeeded') then e.credit else e.debit end)::bigint as amount
from ledger_txn t
join ledger_entry e using (txn_id)
where (t.kind = 'capture' and e.account_id like 'processor\_receivable:%%')
   or (t.kind in ('authorize', 'void') and e.account_id like 'auth\_hold:%%')
   or (t.kind = 'refund_succeeded' and e.account_id like 'processor\_receivable:%%'
       and not exists (select 1 from ledger_txn b
                       where b.reference = split_part(t.reference, ':', 1) || ':failed_later'))
group by 1, 2, 3, 4;

-- name: volume_hourly
-- The same question as ClickHouse's view payment_volume_hourly.
select merchant_id, currency, date_trunc('hour', created_at, 'UTC') as hour,
       count(*) as intents,
       count(*) filter (where state = 'succeeded') as intents_succeeded,
       count(*) filter (where state = 'requires_payment_method' and last_payment_error is not null) as intents_refused,
       count(*) filter (where state = 'canceled') as intents_canceled,
       count(*) filter (where state in ('processing', 'requires_capture')) as intents_open,
       sum(amount)::bigint as requested_minor,
       sum(amount_received)::bigint as received_minor
from payment_intent
group by 1, 2, 3
order by 1, 2, 3;

-- name: counts
-- The table of counts.
select
    (select count(*) from payment_intent) as intents,
    (select count(*) from idempotency where merchant_id not like 'processor:%%' and status = 'committed') as commands_committed,
    (select count(*) from idempotency where merchant_id not like 'processor:%%' and status = 'refused') as commands_refused,
    (select count(*) from idempotency where merchant_id like 'processor:%%') as facts,
    (select count(*) from processor_attempt) as attempts,
    (select coalesce(sum(send_count), 0) from attempt_dispatch)::bigint as sends,
    (select count(*) from ledger_txn) as ledger_txns,
    (select count(*) from ledger_entry) as ledger_entries,
    (select count(*) from outbox) as events,
    (select count(*) from dead_letter) as parked;

-- name: timeline_commands
-- Every decided command and fact of one payment: its place in Kafka, the owner's time, and the transaction that
-- committed it, which is the batch. No index serves it: a demo's tables are small.
select i.merchant_id, i.key, i.operation, i.status, i.partition, i."offset", i.event_id,
       (extract(epoch from coalesce((select o.occurred_at from outbox o where o.event_id = i.event_id), i.created_at))
        * 1000000)::bigint as at_us,
       i.xmin::text as batch,
       (select count(*) from idempotency b where b.xmin::text = i.xmin::text) as batch_commands
from idempotency i
where i.aggregate_key = %(intent)s
order by i.created_at;

-- name: timeline_attempts
-- The attempts of one payment with their dispatch. Primary keys.
select a.attempt, a.kind, a.status, a.operation_id, a.processor, a.amount, a.currency, a.provider_ref,
       (extract(epoch from a.created_at) * 1000000)::bigint as at_us,
       d.send_count, d.unknown_count,
       (extract(epoch from d.first_at) * 1000000)::bigint as dispatched_us
from processor_attempt a
join attempt_dispatch d using (operation_id)
where a.intent_id = %(intent)s
order by a.attempt;

-- name: timeline_postings
-- The ledger transactions of one payment with their lines.
select t.reference, t.kind, (extract(epoch from t.recorded_at) * 1000000)::bigint as at_us,
       array_agg(e.account_id || case when e.debit > 0 then ' Dr ' || e.debit else ' Cr ' || e.credit end
                 order by e.line) as lines
from ledger_txn t
join ledger_entry e using (txn_id)
where t.aggregate_key = %(intent)s
group by t.txn_id
order by t.txn_id;

-- name: timeline_events
-- The events of one payment, and when the block that holds each was in ClickHouse.
select o.partition, o.seq, o.event_id, o.version, (extract(epoch from o.occurred_at) * 1000000)::bigint as at_us,
       (select (extract(epoch from max(p.inserted_at)) * 1000000)::bigint
        from sink_plan_range r join sink_plan p using (sink, plan_id)
        where r.sink = 'clickhouse' and r.topic = o.topic and r.partition = o.partition
          and o.seq between r.first_seq and r.last_seq) as inserted_us
from outbox o
where o.topic = %(topic)s and o.aggregate_key = %(intent)s
order by o.seq;

-- name: act_postings
-- The ledger transactions of some payments, in their order; a table of a demo is small.
select aggregate_key as intent, array_agg(kind order by txn_id) as kinds
from ledger_txn
where aggregate_key = any(%(intents)s)
group by 1;
