-- The next versions of a post below one, newest first, where the viewer may see the post, and might have seen that version:
-- what its author wrote for fewer stays with them. Primary key.
select v.version, v.text, v.media_ids, v.visibility, v.edited_at
from post p join post_version v on v.post_id = p.post_id and v.version < %(below)s::bigint
where p.post_id = %(post_id)s::text
  and exists (select from social_sees(%(viewer)s::text, p.post_id, p.author_id, p.visibility, p.state))
  and exists (select from social_sees(%(viewer)s::text, p.post_id, p.author_id, v.visibility, p.state))
order by v.version desc limit %(limit)s::int
