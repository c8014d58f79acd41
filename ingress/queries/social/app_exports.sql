-- A user's exports, newest first. Served by export_of_user.
select export_id, created_at from export where user_id = %(user_id)s::text order by created_at desc, export_id limit %(limit)s::int
