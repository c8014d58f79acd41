-- How users are called who are there for the viewer. Primary keys.
select a.user_id, a.display_name
from author a
where a.user_id = any (%(ids)s::text[])
  and (a.user_id = %(viewer)s::text
       or exists (select from social_met(array[%(viewer)s::text], array[a.user_id])))
