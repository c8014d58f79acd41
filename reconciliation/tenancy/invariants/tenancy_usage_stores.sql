-- id: tenancy_usage_stores
-- title: Usage of tenants per dimension and partition: Postgres = ClickHouse, up to where it is fed
-- severity: critical
-- owner: sink
-- source: comparison
select e.partition, e.dimension, count(*), sum(e.seq), sum(e.quantity)
from usage_event e
join usage_counted c on c.partition = e.partition and e.seq > c.floor_seq
join unnest(%(partitions)s::int[], %(seqs)s::bigint[]) as b (partition, seq) on b.partition = e.partition and e.seq <= b.seq
group by e.partition, e.dimension
