-- The newest committed event of every partition. One backward probe of the primary key of outbox for each.
select p.partition, o.seq
from unnest(%(partitions)s::int[]) as p (partition)
cross join lateral (
    select seq from outbox where topic = %(topic)s and partition = p.partition order by seq desc limit 1
) o
