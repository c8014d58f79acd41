-- One counter. Primary key.
select id, owner, label, value, state, version, created_at, updated_at from counter where id = %(id)s::text
