-- The next versions of a post below one, newest first, where the viewer may see the post. Primary key.
select v.version, v.text, v.media_ids, v.visibility, v.edited_at
from social_authorize(array[%(viewer)s::text], array[%(post_id)s::text]) s
join post_version v on v.post_id = s.post_id and v.version < %(below)s::bigint
order by v.version desc limit %(limit)s::int
