-- GET /v1/events: the next events of one caller in every partition after its place there. Served by outbox_scope.
select e.partition, e.seq, e.payload
from unnest(%(partitions)s::int[], %(seqs)s::bigint[]) as c (partition, seq)
cross join lateral (
    select o.partition, o.seq, o.payload
    from outbox o
    where o.scope = %(scope)s and o.topic = %(topic)s and o.partition = c.partition and o.seq > c.seq
    order by o.seq
    limit %(limit)s
) e
order by e.partition, e.seq
