-- Payments in the comparison of stores: what is not in the file of the invariant.

-- name: updated_events
-- Invariant 18, in the check's snapshot: the events of payments whose terms changed, up to a seq per partition.
-- Step by step (materialized): on tables without statistics yet one join of all has no bound.
with bound as (select * from unnest(%(partitions)s::int[], %(seqs)s::bigint[]) as b (partition, seq)),
change as materialized (select event_id from idempotency where operation = 'update_payment_intent'),
updated as materialized (
    select distinct o.aggregate_key
    from outbox o
    join bound b on b.partition = o.partition and o.seq <= b.seq
    join change c on c.event_id = o.event_id
    where o.topic = %(events_topic)s
)
select o.payload
from outbox o
join bound b on b.partition = o.partition and o.seq <= b.seq
where o.topic = %(events_topic)s and o.aggregate_key in (select aggregate_key from updated);

-- name: clickhouse_events
-- Invariant 18, events as ClickHouse has them up to the compared positions.
select 'event', intDiv(toUnixTimestamp(occurred_at), 3600) as hour, currency, operation, count(), sum(seq), 0
from events where seq <= {seqs:Array(UInt64)}[kafka_partition + 1] group by hour, currency, operation;

-- name: clickhouse_ledger
-- Invariant 18, ledger lines as ClickHouse has them up to the compared positions.
select 'ledger_line', intDiv(toUnixTimestamp(effective_at), 3600) as hour, currency, kind, count(), sum(debit), sum(credit)
from ledger_lines where seq <= {seqs:Array(UInt64)}[kafka_partition + 1] group by hour, currency, kind;

-- name: clickhouse_intents
-- Invariant 18, versions of intents as ClickHouse has them up to the compared positions.
select 'intent_version', intDiv(toUnixTimestamp(updated_at), 3600) as hour, currency, state, count(), sum(amount_received),
       sum(amount_capturable)
from payment_intents where seq <= {seqs:Array(UInt64)}[kafka_partition + 1] group by hour, currency, state;

-- name: clickhouse_attempts
-- Invariant 18, versions of attempts as ClickHouse has them up to the compared positions.
select 'attempt_version', intDiv(toUnixTimestamp(updated_at), 3600) as hour, currency, status, count(), sum(amount), sum(attempt)
from processor_attempts where seq <= {seqs:Array(UInt64)}[kafka_partition + 1] group by hour, currency, status;

-- name: clickhouse_refunds
-- Invariant 18, versions of refunds as ClickHouse has them up to the compared positions.
select 'refund_version', intDiv(toUnixTimestamp(updated_at), 3600) as hour, currency, state, count(), sum(amount), sum(version)
from refunds where seq <= {seqs:Array(UInt64)}[kafka_partition + 1] group by hour, currency, state;

-- name: clickhouse_disputes
-- Invariant 18, versions of disputes as ClickHouse has them up to the compared positions.
select 'dispute_version', intDiv(toUnixTimestamp(updated_at), 3600) as hour, currency, state, count(), sum(amount), sum(version)
from disputes where seq <= {seqs:Array(UInt64)}[kafka_partition + 1] group by hour, currency, state;

-- name: clickhouse_made_refunds
-- Invariant 18, refunds by when they were made.
select 'refund', intDiv(toUnixTimestamp(created_at), 3600) as hour, currency, '', count(), sum(amount), 0
from refunds where version = 1 and seq <= {seqs:Array(UInt64)}[kafka_partition + 1] group by hour, currency;

-- name: clickhouse_made_disputes
-- Invariant 18, disputes by when they were first heard of.
select 'dispute', intDiv(toUnixTimestamp(created_at), 3600) as hour, currency, processor, count(), sum(amount), 0
from disputes where version = 1 and seq <= {seqs:Array(UInt64)}[kafka_partition + 1] group by hour, currency, processor;

-- name: clickhouse_made_journal
-- Invariant 18, journal entries: aggregates of one event.
select 'journal_entry', intDiv(toUnixTimestamp(occurred_at), 3600) as hour, '', '', count(), 0, 0
from events where operation = 'post_journal' and seq <= {seqs:Array(UInt64)}[kafka_partition + 1] group by hour;

-- name: clickhouse_current_refunds
-- Invariant 18, refunds as they are at the compared positions.
select 'refund_current', intDiv(toUnixTimestamp(updated_at), 3600) as hour, currency, state, count(), sum(amount), sum(version)
from (select * from refunds where seq <= {seqs:Array(UInt64)}[kafka_partition + 1] order by id, version desc limit 1 by id) group by hour, currency, state;

-- name: clickhouse_current_disputes
-- Invariant 18, disputes as they are at the compared positions.
select 'dispute_current', intDiv(toUnixTimestamp(updated_at), 3600) as hour, currency, state, count(), sum(amount), sum(version)
from (select * from disputes where seq <= {seqs:Array(UInt64)}[kafka_partition + 1] order by id, version desc limit 1 by id) group by hour, currency, state;

-- name: clickhouse_payouts
-- Invariant 18, versions of payouts as ClickHouse has them up to the compared positions.
select 'payout_version', intDiv(toUnixTimestamp(updated_at), 3600) as hour, currency, state, count(), sum(amount), sum(version)
from payouts where seq <= {seqs:Array(UInt64)}[kafka_partition + 1] group by hour, currency, state;

-- name: clickhouse_accounts
-- Invariant 18, versions of merchants' accounts as ClickHouse has them up to the compared positions.
select 'account_version', intDiv(toUnixTimestamp(updated_at), 3600) as hour, '' as currency, state, count(), sum(version), 0
from merchant_accounts where seq <= {seqs:Array(UInt64)}[kafka_partition + 1] group by hour, state;

-- name: clickhouse_made_payouts
-- Invariant 18, payouts to merchants by when they were asked for.
select 'payout', intDiv(toUnixTimestamp(created_at), 3600) as hour, currency, '', count(), sum(amount), 0
from payouts where version = 1 and seq <= {seqs:Array(UInt64)}[kafka_partition + 1] group by hour, currency;

-- name: clickhouse_current_payouts
-- Invariant 18, payouts to merchants as they are at the compared positions.
select 'payout_current', intDiv(toUnixTimestamp(updated_at), 3600) as hour, currency, state, count(), sum(amount), sum(version)
from (select * from payouts where seq <= {seqs:Array(UInt64)}[kafka_partition + 1] order by id, version desc limit 1 by id) group by hour, currency, state;
