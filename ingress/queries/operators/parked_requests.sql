-- Which of these commands lie in the dead letters, by their place in the topic. Served by the primary key.
select w.n
from unnest(%(ns)s::int[], %(topics)s::text[], %(partitions)s::int[], %(offsets)s::bigint[])
    as w (n, topic, partition, "offset")
join dead_letter d on d.topic = w.topic and d.partition = w.partition and d."offset" = w."offset"
