-- Statements of replays into Postgres shadows (schema millrace_replay).

-- name: balances_add
-- Sums of a chunk per account and partition. Primary key.
insert into millrace_replay.account_balance as b (account_id, partition, currency, debits, credits, version)
select * from unnest(%(accounts)s::text[], %(partitions)s::int[], %(currencies)s::text[], %(debits)s::numeric[],
                     %(credits)s::numeric[], %(entries)s::bigint[])
on conflict (account_id, partition) do update
    set debits = b.debits + excluded.debits, credits = b.credits + excluded.credits, version = b.version + excluded.version;

-- name: balances_before
-- What the ledger held of a partition before its first replayed transaction. In the replay's snapshot.
select e.account_id, t.partition, e.currency, sum(e.debit), sum(e.credit), count(*)
from ledger_txn t join ledger_entry e using (txn_id)
where t.partition = %(partition)s and t.txn_id < %(txn_id)s
group by e.account_id, t.partition, e.currency;

-- name: balances_live
-- The comparison: balances as readers see them, in the order of the shadow's.
select account_id, partition, currency, debits, credits, version from public.account_balance
where partition = any (%(partitions)s) order by account_id, partition;

-- name: balances_shadow
-- The comparison: balances as the replay rebuilt them, in the order of the live ones.
select account_id, partition, currency, debits, credits, version from millrace_replay.account_balance
where partition = any (%(partitions)s) order by account_id, partition;

-- name: intents_upsert
-- The newest version of a chunk per intent. Primary key.
insert into millrace_replay.payment_intent as i
select * from jsonb_populate_recordset(null::millrace_replay.payment_intent, %(rows)s::jsonb)
on conflict (id) do update set
    amount = excluded.amount, currency = excluded.currency, state = excluded.state, version = excluded.version,
    capture_method = excluded.capture_method, payment_method = excluded.payment_method, processor = excluded.processor,
    amount_capturable = excluded.amount_capturable, amount_received = excluded.amount_received,
    amount_refunded = excluded.amount_refunded, amount_disputed = excluded.amount_disputed,
    last_payment_error = excluded.last_payment_error, cancellation_reason = excluded.cancellation_reason,
    latest_attempt = excluded.latest_attempt, metadata = excluded.metadata, partition = excluded.partition,
    merchant_id = excluded.merchant_id, created_at = excluded.created_at, updated_at = excluded.updated_at,
    amount_pending = excluded.amount_pending
where i.version < excluded.version;

-- name: intents_live
-- Only those that the replay touched: an older intent is not in it.
select l.id, l.version, l.merchant_id, l.amount, l.currency, l.state, l.capture_method, l.payment_method, l.processor,
       l.amount_capturable, l.amount_received, l.amount_refunded, l.amount_disputed, l.last_payment_error,
       l.cancellation_reason, l.latest_attempt, l.metadata::jsonb::text, l.partition, l.created_at, l.updated_at,
       l.amount_pending
from public.payment_intent l
where l.partition = any (%(partitions)s) and (%(from_zero)s or l.id in (
    select o.aggregate_key
    from outbox o
    join unnest(%(partitions)s::int[], %(first_seqs)s::bigint[]) as f (partition, seq)
         on f.partition = o.partition and o.seq >= f.seq
    where o.topic = %(topic)s
))
order by l.id;

-- name: intents_shadow
-- The comparison: intents as the replay rebuilt them, in the order of the live ones. Events of version 1 do not say
-- what is pending: there the live amount stands, and invariant 7 compares it with the ledger.
select s.id, s.version, s.merchant_id, s.amount, s.currency, s.state, s.capture_method, s.payment_method, s.processor,
       s.amount_capturable, s.amount_received, s.amount_refunded, s.amount_disputed, s.last_payment_error,
       s.cancellation_reason, s.latest_attempt, s.metadata::jsonb::text, s.partition, s.created_at, s.updated_at,
       coalesce(s.amount_pending, l.amount_pending)
from millrace_replay.payment_intent s left join public.payment_intent l using (id)
where s.partition = any (%(partitions)s) order by s.id;

-- name: merchant_account_upsert
-- The newest version of a chunk per account. Primary key.
insert into millrace_replay.merchant_account as a
select * from jsonb_populate_recordset(null::millrace_replay.merchant_account, %(rows)s::jsonb)
on conflict (id) do update set
    state = excluded.state, frozen_reason = excluded.frozen_reason, version = excluded.version,
    updated_at = excluded.updated_at
where a.version < excluded.version;

-- name: merchant_account_live
-- Only those that the replay touched: an older account is not in it.
select l.id, l.version, l.merchant_id, l.state, l.frozen_reason, l.partition, l.created_at, l.updated_at
from public.merchant_account l
where l.partition = any (%(partitions)s) and (%(from_zero)s or l.id in (
    select o.aggregate_key
    from outbox o
    join unnest(%(partitions)s::int[], %(first_seqs)s::bigint[]) as f (partition, seq)
         on f.partition = o.partition and o.seq >= f.seq
    where o.topic = %(topic)s
))
order by l.id;

-- name: merchant_account_shadow
-- The comparison: accounts as the replay rebuilt them, in the order of the live ones.
select id, version, merchant_id, state, frozen_reason, partition, created_at, updated_at
from millrace_replay.merchant_account order by id;

-- name: payout_upsert
-- The newest version of a chunk per payout. Primary key.
insert into millrace_replay.payout as p
select * from jsonb_populate_recordset(null::millrace_replay.payout, %(rows)s::jsonb)
on conflict (id) do update set
    state = excluded.state, failure_reason = excluded.failure_reason, version = excluded.version,
    updated_at = excluded.updated_at
where p.version < excluded.version;

-- name: payout_live
-- Only those that the replay touched: of accounts of its partitions, and changed at the time of one of its events.
select l.id, l.version, l.account_id, l.merchant_id, l.amount, l.currency, l.state, l.destination, l.failure_reason,
       l.metadata::jsonb::text, l.created_at, l.updated_at
from public.payout l join public.merchant_account a on a.id = l.account_id
where a.partition = any (%(partitions)s) and (%(from_zero)s or exists (
    select from outbox o
    join unnest(%(partitions)s::int[], %(first_seqs)s::bigint[]) as f (partition, seq)
         on f.partition = o.partition and o.seq >= f.seq
    where o.topic = %(topic)s and o.aggregate_key = l.account_id and o.occurred_at = l.updated_at
))
order by l.id;

-- name: payout_shadow
-- The comparison: payouts as the replay rebuilt them, in the order of the live ones.
select id, version, account_id, merchant_id, amount, currency, state, destination, failure_reason, metadata::jsonb::text,
       created_at, updated_at
from millrace_replay.payout order by id;
