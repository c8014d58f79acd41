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

-- name: payment_intent_upsert
-- The newest version of a chunk per intent. Primary key.
insert into millrace_replay.payment_intent as i
select * from jsonb_populate_recordset(null::millrace_replay.payment_intent, %(rows)s::jsonb)
on conflict (id) do update set partition = excluded.partition, {{excluded PaymentIntent}}
where i.version < excluded.version;

-- name: payment_intent_live
-- Only those that the replay touched: an older intent is not in it.
select {{compared PaymentIntent l}}, l.partition
from public.payment_intent l
where l.partition = any (%(partitions)s) and (%(from_zero)s or l.id in (
    select o.aggregate_key
    from outbox o
    join unnest(%(partitions)s::int[], %(first_seqs)s::bigint[]) as f (partition, seq)
         on f.partition = o.partition and o.seq >= f.seq
    where o.topic = %(topic)s
))
order by l.id;

-- name: payment_intent_unsaid
-- Before the comparison. Events of version 1 do not say what is pending: there the live amount stands, and invariant 7
-- compares it with the ledger.
update millrace_replay.payment_intent s set amount_pending = l.amount_pending
from public.payment_intent l where l.id = s.id and s.amount_pending is null;

-- name: payment_intent_shadow
-- The comparison: intents as the replay rebuilt them, in the order of the live ones.
select {{compared PaymentIntent s}}, s.partition
from millrace_replay.payment_intent s order by s.id;

-- name: merchant_account_upsert
-- The newest version of a chunk per account. Primary key.
insert into millrace_replay.merchant_account as a
select * from jsonb_populate_recordset(null::millrace_replay.merchant_account, %(rows)s::jsonb)
on conflict (id) do update set {{excluded MerchantAccount}}
where a.version < excluded.version;

-- name: merchant_account_live
-- Only those that the replay touched: an older account is not in it.
select {{compared MerchantAccount l}}, l.partition
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
select {{compared MerchantAccount s}}, s.partition
from millrace_replay.merchant_account s order by s.id;

-- name: payout_upsert
-- The newest version of a chunk per payout. Primary key.
insert into millrace_replay.payout as p
select * from jsonb_populate_recordset(null::millrace_replay.payout, %(rows)s::jsonb)
on conflict (id) do update set {{excluded Payout}}
where p.version < excluded.version;

-- name: payout_live
-- Only those that the replay touched: of accounts of its partitions, and changed at the time of one of its events.
select {{compared Payout l}}
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
select {{compared Payout s}}
from millrace_replay.payout s order by s.id;

-- name: payout_destination_upsert
-- The newest version of a chunk per destination. Primary key.
insert into millrace_replay.payout_destination as d
select * from jsonb_populate_recordset(null::millrace_replay.payout_destination, %(rows)s::jsonb)
on conflict (id) do update set {{excluded PayoutDestination}}
where d.version < excluded.version;

-- name: payout_destination_live
-- Only those that the replay touched, as payout_live.
select {{compared PayoutDestination l}}
from public.payout_destination l join public.merchant_account a on a.id = l.account_id
where a.partition = any (%(partitions)s) and (%(from_zero)s or exists (
    select from outbox o
    join unnest(%(partitions)s::int[], %(first_seqs)s::bigint[]) as f (partition, seq)
         on f.partition = o.partition and o.seq >= f.seq
    where o.topic = %(topic)s and o.aggregate_key = l.account_id and o.occurred_at = l.updated_at
))
order by l.id;

-- name: payout_destination_shadow
-- The comparison: destinations as the replay rebuilt them, in the order of the live ones.
select {{compared PayoutDestination s}}
from millrace_replay.payout_destination s order by s.id;
