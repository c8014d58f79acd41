-- Those of these posts that the viewer may see, with their likes, reposts, and the replies that it may see. Primary key.
select p.post_id, p.author_id, p.visibility, p.text, p.version, p.state, p.media_ids, p.reply_to, p.root_id, p.quote_of,
       p.is_pushed, p.created_at, p.edited_at
from post p
where p.post_id = any (%(ids)s::text[])
  and exists (select from social_sees(%(viewer)s::text, p.post_id, p.author_id, p.visibility, p.state))
