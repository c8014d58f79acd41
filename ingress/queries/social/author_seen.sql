-- A user, where it is there for the viewer. Primary key.
select a.user_id, a.display_name, a.state, a.is_private, a.followers, a.is_pulled, a.version, a.updated_at
from author a
where a.user_id = %(user_id)s::text
  and (a.user_id = %(viewer)s::text
       or exists (select from social_met(array[%(viewer)s::text], array[a.user_id])))
