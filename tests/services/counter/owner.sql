-- name: counters_read
-- The counters of a batch. Primary key.
select id, owner, label, value, state, version, created_at, updated_at from counter where id = any (%s::text[]);

-- name: counters_insert
-- New ones; a key that exists fails the batch.
insert into counter (partition, id, owner, label, value, state, version, created_at, updated_at)
select * from unnest(%s::int[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[]);

-- name: counters_update
-- Compare-and-set on the versions read: a miss divides by zero, which fails the transaction.
with written as (
    update counter c
    set value = t.value, state = t.state, version = t.version, updated_at = t.updated_at
    from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[],
                %s::bigint[])
        as t (id, owner, label, value, state, version, created_at, updated_at, read_version)
    where c.id = t.id and c.version = t.read_version
    returning 1)
select 1 / (count(*) = %s)::int from written;
