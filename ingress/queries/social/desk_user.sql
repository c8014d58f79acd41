-- A user for the desk, as everybody may see it; none that is erased. Primary key.
select display_name, version, state from author
where user_id = %(id)s::text and state not in ('deleting', 'deleted')
