-- A user, as itself sees it. Primary key.
select user_id, display_name, state, is_private, followers, is_pulled, version, updated_at
from author where user_id = %(user_id)s::text
