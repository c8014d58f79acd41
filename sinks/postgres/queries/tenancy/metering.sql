-- What the metering of tenants reads and writes. Each names its index.

-- name: counted_begin
-- At the start: every partition has a row. Primary key.
insert into usage_counted (partition) select unnest(%(partitions)s::int[]) on conflict do nothing;

-- name: counted_hold
-- First of a batch: nobody else counts into this partition until it commits. Primary key.
select last_seq from usage_counted where partition = %(partition)s for update;

-- name: counted_advance
-- Last of a batch. Primary key.
update usage_counted set last_seq = %(last_seq)s where partition = %(partition)s;

-- name: usage_insert
-- What nobody has counted, in the order in which it came; the rest is left out. Primary key.
insert into usage_event (tenant_id, source, event_id, dimension, quantity, subject, occurred_at, partition, seq)
select t.tenant_id, t.source, t.event_id, t.dimension, t.quantity, nullif(t.subject, ''), t.occurred_at,
       %(partition)s, %(last_seq)s + row_number() over (order by t.place)
from unnest(%(tenants)s::text[], %(sources)s::text[], %(event_ids)s::text[], %(dimensions)s::text[],
            %(quantities)s::bigint[], %(subjects)s::text[], %(times)s::timestamptz[])
         with ordinality as t (tenant_id, source, event_id, dimension, quantity, subject, occurred_at, place)
where not exists (select from usage_event e
                  where e.tenant_id = t.tenant_id and e.source = t.source and e.event_id = t.event_id);

-- name: usage_stored
-- When some of a batch was counted before: what counts of each identity. Primary key.
select t.place - 1, e.dimension, e.quantity, e.subject,
       (extract(epoch from e.occurred_at) * 1000000)::bigint
from unnest(%(tenants)s::text[], %(sources)s::text[], %(event_ids)s::text[])
         with ordinality as t (tenant_id, source, event_id, place)
join usage_event e on e.tenant_id = t.tenant_id and e.source = t.source and e.event_id = t.event_id;

-- name: conflicts_insert
-- What contradicts; the same contradiction again is told once. Primary key.
insert into usage_conflict (tenant_id, source, event_id, dimension, quantity, subject, occurred_at, digest, conflict_id)
select tenant_id, source, event_id, dimension, quantity, nullif(subject, ''), occurred_at, digest, conflict_id
from unnest(%(tenants)s::text[], %(sources)s::text[], %(event_ids)s::text[], %(dimensions)s::text[],
            %(quantities)s::bigint[], %(subjects)s::text[], %(times)s::timestamptz[], %(digests)s::bytea[],
            %(conflict_ids)s::text[])
         as t (tenant_id, source, event_id, dimension, quantity, subject, occurred_at, digest, conflict_id)
on conflict do nothing;
