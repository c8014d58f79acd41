-- What the metering of tenants reads and writes. Each names its index.

-- name: counted_begin
-- At the start: every partition has a row. Primary key.
insert into usage_counted (partition) select unnest(%(partitions)s::int[]) on conflict do nothing;

-- name: counted_hold
-- First of a batch: nobody else counts into these partitions until it commits. Primary key.
select partition from usage_counted where partition = any(%(partitions)s::int[]) order by partition for update;

-- name: usage_count
-- Counts what nobody has counted, in the order in which it came, and moves the ends of its partitions; gives what was
-- counted before of the other identities: the place in the batch, and the content. One look at the primary key for each.
with looked as materialized (
    select t.*, e.event_id is not null as is_known, e.dimension as known_dimension, e.quantity as known_quantity,
           e.subject as known_subject, e.occurred_at as known_at
    from unnest(%(tenants)s::text[], %(sources)s::text[], %(event_ids)s::text[], %(dimensions)s::text[],
                %(quantities)s::bigint[], %(subjects)s::text[], %(times)s::timestamptz[], %(partitions)s::int[])
             with ordinality
             as t (tenant_id, source, event_id, dimension, quantity, subject, occurred_at, partition, place)
    left join usage_event e on e.tenant_id = t.tenant_id and e.source = t.source and e.event_id = t.event_id),
counted as (
    insert into usage_event (tenant_id, source, event_id, dimension, quantity, subject, occurred_at, partition, seq)
    select t.tenant_id, t.source, t.event_id, t.dimension, t.quantity, nullif(t.subject, ''), t.occurred_at,
           t.partition, c.last_seq + row_number() over (partition by t.partition order by t.place)
    from looked t join usage_counted c on c.partition = t.partition
    where not t.is_known
    returning partition),
moved as (
    update usage_counted c set last_seq = c.last_seq + n.events
    from (select partition, count(*) as events from counted group by partition) n
    where c.partition = n.partition)
select place - 1, known_dimension, known_quantity, known_subject, (extract(epoch from known_at) * 1000000)::bigint
from looked where is_known order by place;

-- name: usage_remove
-- Some of what is too old, of one partition. Index usage_event_place.
select usage_remove(%s, %s);

-- name: conflicts_insert
-- What contradicts; the same contradiction again is told once. Primary key.
insert into usage_conflict (tenant_id, source, event_id, dimension, quantity, subject, occurred_at, digest, conflict_id)
select tenant_id, source, event_id, dimension, quantity, nullif(subject, ''), occurred_at, digest, conflict_id
from unnest(%(tenants)s::text[], %(sources)s::text[], %(event_ids)s::text[], %(dimensions)s::text[],
            %(quantities)s::bigint[], %(subjects)s::text[], %(times)s::timestamptz[], %(digests)s::bytea[],
            %(conflict_ids)s::text[])
         as t (tenant_id, source, event_id, dimension, quantity, subject, occurred_at, digest, conflict_id)
on conflict do nothing;

-- name: refused_insert
-- Records that do not count, while their sender has room in the partition: kept for people, who make room by what they
-- decide. Index usage_refused_bound.
insert into usage_refused (refused_id, partition, "offset", reason, sender, said_tenant, record_key, said, fields, is_whole,
                           bytes, appended_at)
select t.refused_id, t.partition, t."offset", t.reason, t.sender, t.said_tenant, t.record_key, t.said,
       string_to_array(t.fields, ' '), t.is_whole, t.bytes, t.appended_at
from (select u.*, row_number() over (partition by u.partition, u.sender order by u."offset") as place
      from unnest(%(ids)s::text[], %(partitions)s::int[], %(offsets)s::bigint[], %(reasons)s::text[], %(senders)s::text[],
                  %(tenants)s::text[], %(keys)s::text[], %(said)s::text[], %(fields)s::text[], %(whole)s::bool[],
                  %(bytes)s::int[], %(appended)s::timestamptz[])
               as u (refused_id, partition, "offset", reason, sender, said_tenant, record_key, said, fields, is_whole, bytes,
                     appended_at)) t
left join (select k.partition, k.sender, count(*) as n from usage_refused k
           where k.partition = any(%(partitions)s::int[]) and k.state in ('open', 'asked')
           group by k.partition, k.sender) k
    on k.partition = t.partition and k.sender = t.sender
where t.place + coalesce(k.n, 0) <= %(kept_max)s
on conflict do nothing;

-- name: refused_asked
-- One that is to be judged again, the longest asked first. Index usage_refused_asked.
select refused_id, reason, sender, record_key, said, fields, (extract(epoch from appended_at) * 1000000)::bigint
from usage_refused where state = 'asked' order by decided_at limit 1 for update skip locked;

-- name: refused_became
-- What became of it; of what is refused again, why. Primary key.
update usage_refused set state = %(state)s, reason = %(reason)s where refused_id = %(refused_id)s;

-- name: refused_remove
-- Some of what is too old. Index usage_refused_age.
select usage_refused_remove(%s);
