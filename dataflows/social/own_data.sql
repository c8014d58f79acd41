-- name: erasures_read
-- The erasures of users. Primary key.
select user_id, erasure_id, state, jws, version, created_at, updated_at from erasure where user_id = any (%s::text[]);

-- name: erasures_by_id
-- Erasures that are certified. Unique key.
select user_id, erasure_id, state, jws, version, created_at, updated_at from erasure where erasure_id = any (%s::text[]);

-- name: authors_erased
-- And their users. Unique and primary keys.
select a.user_id, a.display_name, a.state, a.is_private, a.followers, a.is_pulled, a.version, a.updated_at
from author a join erasure e using (user_id) where e.erasure_id = any (%s::text[]);

-- name: erasures_insert
-- One for each user, for ever.
insert into erasure (user_id, erasure_id, state, jws, version, created_at, updated_at)
select t.user_id, t.erasure_id, t.state, nullif(t.jws, ''), t.version, t.created_at, t.updated_at
from unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[])
    as t (user_id, erasure_id, state, jws, version, created_at, updated_at);

-- name: erasures_update
-- Compared and set.
with written as (
    update erasure e
    set state = t.state, jws = nullif(t.jws, ''), version = t.version, updated_at = t.updated_at
    from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[])
        as t (user_id, state, jws, version, updated_at, read_version)
    where e.user_id = t.user_id and e.version = t.read_version
    returning 1)
select 1 / (count(*) = %s)::int from written;

-- name: exports_insert
-- That users asked for copies.
insert into export (export_id, user_id, version, created_at)
select * from unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[]);

-- name: exports_update
-- An export never changes.
select 1 / (count(*) = 0)::int from unnest(%s::text[], %s::bigint[]) as t (export_id, version) where %s = 0;
