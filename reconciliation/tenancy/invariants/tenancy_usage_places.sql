-- id: tenancy_usage_places
-- title: Counted usage has its places 1, 2, 3 ... in every partition, up to what is said to be counted
-- severity: critical
-- owner: whoever changed the metering
-- source: postgres
select c.partition, c.last_seq, count(e.seq) as events, min(e.seq) as first, max(e.seq) as last
from usage_counted c left join usage_event e on e.partition = c.partition
group by c.partition, c.last_seq
having count(e.seq) <> c.last_seq or count(distinct e.seq) <> c.last_seq or coalesce(max(e.seq), 0) <> c.last_seq
