-- Which of these commands lie in the dead letters, by their place in the topic: Kafka's, while a dead letter lies where the
-- partition counts, which differs once an operator let it go on elsewhere. Served by the primary keys.
select w.n
from unnest(%(ns)s::int[], %(topics)s::text[], %(partitions)s::int[], %(offsets)s::bigint[])
    as w (n, topic, partition, "offset")
join partition_owner p on p.topic = w.topic and p.partition = w.partition
join dead_letter d on d.topic = w.topic and d.partition = w.partition and d."offset" = w."offset" + p.offset_base
