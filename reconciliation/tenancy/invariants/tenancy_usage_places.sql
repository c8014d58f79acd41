-- id: tenancy_usage_places
-- title: Counted usage has its places without gap in every partition, from what was removed up to what is said to be counted
-- severity: critical
-- owner: whoever changed the metering
-- source: postgres
select c.partition, c.floor_seq, c.last_seq, count(e.seq) as events, min(e.seq) as first, max(e.seq) as last
from usage_counted c left join usage_event e on e.partition = c.partition
group by c.partition, c.floor_seq, c.last_seq
having count(e.seq) <> c.last_seq - c.floor_seq or count(distinct e.seq) <> count(e.seq)
    or coalesce(min(e.seq), c.last_seq + 1) <> c.floor_seq + 1 or coalesce(max(e.seq), c.floor_seq) <> c.last_seq
