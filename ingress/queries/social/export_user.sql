-- The user, as it is. Primary key.
select user_id, json_build_object('object', 'user', 'user_id', user_id, 'display_name', display_name,
                                  'is_private', is_private, 'followers', followers, 'version', version)::text
from author where user_id = %(user_id)s::text and user_id > %(after)s::text limit %(limit)s::int
