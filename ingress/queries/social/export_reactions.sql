-- Likes and reposts. Served by reaction_of_user.
select kind || ':' || post_id, json_build_object('object', kind, 'post_id', post_id)::text
from reaction where user_id = %(user_id)s::text and state = 'active' and kind || ':' || post_id > %(after)s::text
order by kind || ':' || post_id limit %(limit)s::int
