-- id: 18
-- title: Events, ledger lines, refunds, disputes and journal entries per hour: Postgres = ClickHouse = Kafka from its beginning
-- severity: critical
-- owner: sink
-- source: comparison
-- Postgres's side, up to a seq per partition (arrays of equal length); reconciliation/payments/stores.py has the others.
with bound as (select * from unnest(%(partitions)s::int[], %(seqs)s::bigint[]) as b (partition, seq)),
event as (
    select o.partition, o.seq, o.aggregate_key, o.occurred_at, i.operation, i."offset"
    from outbox o
    join bound b on b.partition = o.partition and o.seq <= b.seq
    left join idempotency i on i.event_id = o.event_id
    where o.topic = %(events_topic)s
),
-- Until it is confirmed a payment may change its currency; its earlier events keep theirs. Those few are decoded.
updated as (select distinct aggregate_key from event where operation = 'update_payment_intent')
select 'event' as store_kind, floor(extract(epoch from e.occurred_at) / 3600)::bigint as hour,
       coalesce(p.currency, '') as currency,
       e.operation as kind, count(*)::numeric as rows, sum(e.seq)::numeric as first_sum, 0::numeric as second_sum
from event e left join payment_intent p on p.id = e.aggregate_key
where not exists (select from updated u where u.aggregate_key = e.aggregate_key)
group by 1, 2, 3, 4
union all
-- A transaction's number holds the offset of the command that posted it: (partition * 2^44 + offset) * 16 + number.
select 'ledger_line', floor(extract(epoch from t.effective_at) / 3600)::bigint, l.currency, t.kind,
       count(*), sum(l.debit), sum(l.credit)
from ledger_txn t
join event e on e.partition = t.partition and e."offset" = mod(t.txn_id / 16, 17592186044416)
join ledger_entry l using (txn_id)
group by 1, 2, 3, 4
union all
-- What was made, up to the same position: its event has its very time. Postgres keeps no older version of what changes.
select 'refund', floor(extract(epoch from r.created_at) / 3600)::bigint, r.currency, '', count(*), sum(r.amount), 0
from refund r where exists (select from event e where e.aggregate_key = r.intent_id and e.occurred_at = r.created_at)
group by 1, 2, 3, 4
union all
select 'dispute', floor(extract(epoch from d.created_at) / 3600)::bigint, d.currency, d.processor, count(*), sum(d.amount), 0
from dispute d where exists (select from event e where e.aggregate_key = d.intent_id and e.occurred_at = d.created_at)
group by 1, 2, 3, 4
union all
select 'journal_entry', floor(extract(epoch from j.created_at) / 3600)::bigint, '', '', count(*), 0, 0
from journal_entry j where exists (select from event e where e.aggregate_key = j.id and e.occurred_at = j.created_at)
group by 1, 2, 3, 4
union all
-- As they are now, when ClickHouse holds all of the snapshot.
select 'refund_current', floor(extract(epoch from r.updated_at) / 3600)::bigint, r.currency, r.state, count(*), sum(r.amount),
       sum(r.version)
from refund r where %(is_level)s group by 1, 2, 3, 4
union all
select 'dispute_current', floor(extract(epoch from d.updated_at) / 3600)::bigint, d.currency, d.state, count(*),
       sum(d.amount), sum(d.version)
from dispute d where %(is_level)s group by 1, 2, 3, 4
union all
select 'payout', floor(extract(epoch from p.created_at) / 3600)::bigint, p.currency, '', count(*), sum(p.amount), 0
from payout p where exists (select from event e where e.aggregate_key = p.account_id and e.occurred_at = p.created_at)
group by 1, 2, 3, 4
union all
select 'payout_current', floor(extract(epoch from p.updated_at) / 3600)::bigint, p.currency, p.state, count(*), sum(p.amount),
       sum(p.version)
from payout p where %(is_level)s group by 1, 2, 3, 4
