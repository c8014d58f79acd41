-- The next posts of an author below a place, and which of them the viewer may see. Served by post_of_author.
with candidates as (
    select c.created_at as at, c.post_id from post c
    where c.author_id = %(author_id)s::text and c.state = 'published'
      and (c.created_at, c.post_id) < (%(at)s::bigint, %(id)s::text)
    order by c.created_at desc, c.post_id desc limit %(count)s::int)
select c.at, exists (select from social_sees(%(viewer)s::text, p.post_id, p.author_id, p.visibility, p.state)), null,
       p.post_id, p.author_id, p.visibility, p.text, p.version, p.state, p.media_ids, p.reply_to, p.root_id, p.quote_of,
       p.is_pushed, p.created_at, p.edited_at
from candidates c join post p using (post_id)
order by c.at desc, c.post_id desc
