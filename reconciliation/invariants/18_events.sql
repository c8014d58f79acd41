-- id: 18
-- title: Events and ledger lines per hour, currency and kind: Postgres = ClickHouse = Kafka from its beginning
-- severity: critical
-- owner: sink
-- source: comparison
-- Postgres's side, up to a seq per partition (arrays of equal length); reconciliation/cross_store.py has the others.
with bound as (select * from unnest(%(partitions)s::int[], %(seqs)s::bigint[]) as b (partition, seq)),
event as (
    select o.partition, o.seq, o.aggregate_key, o.occurred_at, i.operation, i."offset"
    from outbox o
    join bound b on b.partition = o.partition and o.seq <= b.seq
    left join idempotency i on i.event_id = o.event_id
    where o.topic = %(events_topic)s
)
select 'event' as store_kind, floor(extract(epoch from e.occurred_at) / 3600)::bigint as hour,
       coalesce(p.currency, '') as currency,
       e.operation as kind, count(*)::numeric as rows, sum(e.seq)::numeric as first_sum, 0::numeric as second_sum
from event e left join payment_intent p on p.id = e.aggregate_key
group by 1, 2, 3, 4
union all
-- A transaction's number holds the offset of the command that posted it: (partition * 2^44 + offset) * 16 + number.
select 'ledger_line', floor(extract(epoch from t.effective_at) / 3600)::bigint, l.currency, t.kind,
       count(*), sum(l.debit), sum(l.credit)
from ledger_txn t
join event e on e.partition = t.partition and e."offset" = mod(t.txn_id / 16, 17592186044416)
join ledger_entry l using (txn_id)
group by 1, 2, 3, 4
