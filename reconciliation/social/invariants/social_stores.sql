-- id: social_stores
-- title: Events of social posts per hour: Postgres = ClickHouse = Kafka from its beginning
-- severity: critical
-- owner: sink
-- source: comparison
select 'event', floor(extract(epoch from o.occurred_at) / 3600)::bigint, '', '', count(*), sum(o.seq), sum(o.version)
from outbox o
join unnest(%(partitions)s::int[], %(seqs)s::bigint[]) as b (partition, seq) on b.partition = o.partition and o.seq <= b.seq
where o.topic = %(events_topic)s group by 1, 2
