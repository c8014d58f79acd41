-- The next posts with all of these words below a place, where the viewer may see them. Served by post_words.
with candidates as (
    select c.created_at as at, c.post_id from post c
    where c.state = 'published'
      and social_words(c.text) @@ plainto_tsquery('simple', regexp_replace(%(words)s::text, '[^[:alnum:]]+', ' ', 'g'))
      and (c.created_at, c.post_id) < (%(at)s::bigint, %(id)s::text)
    order by c.created_at desc, c.post_id desc limit %(count)s::int)
select c.at,
       exists (select from social_sees(%(viewer)s::text, p.post_id, p.author_id, p.visibility, p.state))
       and not exists (select from moderation_current m where m.object_id = c.post_id and m.effect = 'limit'), null,
       p.post_id, p.author_id, p.visibility, p.text, p.version, p.state, p.media_ids, p.reply_to, p.root_id, p.quote_of,
       p.is_pushed, p.created_at, p.edited_at
from candidates c join post p using (post_id)
order by c.at desc, c.post_id desc
