-- The next posts of a thread above a place: the root has time 0, its replies follow, oldest first. Served by post_of_thread.
with candidates as (
    (select 0::bigint as at, c.post_id from post c
     where c.post_id = %(root_id)s::text and c.state = 'published' and (0, c.post_id) > (%(at)s::bigint, %(id)s::text))
    union all
    (select c.created_at, c.post_id from post c
     where c.root_id = %(root_id)s::text and c.post_id <> c.root_id and c.state = 'published'
       and (c.created_at, c.post_id) > (%(at)s::bigint, %(id)s::text)
     order by c.created_at, c.post_id limit %(count)s::int)
    order by 1, 2 limit %(count)s::int)
select c.at, exists (select from social_sees(%(viewer)s::text, p.post_id, p.author_id, p.visibility, p.state)), null,
       p.post_id, p.author_id, p.visibility, p.text, p.version, p.state, p.media_ids, p.reply_to, p.root_id, p.quote_of,
       p.is_pushed, p.created_at, p.edited_at
from candidates c join post p using (post_id)
order by c.at, c.post_id
