-- name: counters_upsert
-- A replay's shadow: the newest version of each counter. Primary key.
insert into millrace_replay.counter (id, partition, owner, label, value, state, version, created_at, updated_at)
select id, partition, owner, label, value, state, version, 0, 0
from json_to_recordset(%(rows)s::json)
    as r (id text, partition integer, owner text, label text, value bigint, state text, version bigint)
on conflict (id) do update
set value = excluded.value, state = excluded.state, version = excluded.version
where excluded.version >= millrace_replay.counter.version;

-- name: counters_live
-- Those that the replayed events touched: since these seqs in these partitions. Primary key of the outbox.
select c.id, c.owner, c.label, c.value, c.state, c.version from counter c
where c.partition = any(%(partitions)s::int[])
  and exists (
    select from outbox o
    join unnest(%(partitions)s::int[], %(first_seqs)s::bigint[]) as f (partition, first_seq) using (partition)
    where o.topic = %(topic)s and o.seq >= f.first_seq and o.aggregate_key = c.id)
order by c.id;

-- name: counters_shadow
-- The rebuilt ones.
select id, owner, label, value, state, version from millrace_replay.counter order by id;

-- name: aggregate_version
-- Primary key.
select version from counter where id = %(aggregate_key)s;
