-- id: outbox
-- title: The events of every partition are numbered 1, 2, 3 ... without a gap, and no more are published than exist
-- severity: critical
-- owner: owner
-- source: postgres
select topic, partition, o.events, o.first, o.last, p.published_seq
from (
    select topic, partition, count(*) as events, min(seq) as first, max(seq) as last from outbox group by topic, partition
) o
full join (
    -- the events of a service are on its own topic, in the partition of the command
    select replace(topic, 'commands.', 'events.') as topic, partition, published_seq from partition_owner
) p using (topic, partition)
where (o.partition is not null and (o.first <> 1 or o.events <> o.last))
   or coalesce(p.published_seq, 0) > coalesce(o.last, 0)
