-- id: tenancy_usage_stores
-- title: Usage of tenants, event by event: Postgres = ClickHouse, up to where it is fed
-- severity: critical
-- owner: sink
-- source: comparison
select e.partition, e.dimension, case when %(by_hour)s then e.tenant_id else '' end,
       case when %(by_hour)s then floor(extract(epoch from e.occurred_at) / 3600)::bigint else 0 end,
       count(*), sum(e.seq), sum(e.quantity), sum(('x' || left(md5(concat_ws(chr(31), e.tenant_id, e.source, e.event_id,
           coalesce(e.subject, ''), e.quantity, e.seq, (extract(epoch from e.occurred_at) * 1000000)::bigint)), 15))::bit(60)::bigint)
from usage_event e
join usage_counted c on c.partition = e.partition and e.seq > c.floor_seq
join unnest(%(partitions)s::int[], %(seqs)s::bigint[]) as b (partition, seq) on b.partition = e.partition and e.seq <= b.seq
where e.dimension = coalesce(%(dimension)s::text, e.dimension)
group by 1, 2, 3, 4
