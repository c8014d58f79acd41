-- A page of somebody's own, newest first. Served by counter_of_owner.
select id, owner, label, value, state, version, created_at, updated_at from counter
where owner = %(merchant)s::text and (created_at, id) < (%(created_at)s::bigint, %(id)s::text)
order by created_at desc, id desc limit %(limit)s::int
