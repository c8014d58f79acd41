-- One's own erasure. Primary key.
select user_id, erasure_id, state, jws, version, created_at, updated_at from erasure where user_id = %(user_id)s::text
