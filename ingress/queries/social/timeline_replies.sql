-- The next direct answers to a post above a place that the viewer may see, and no others, as of an author: oldest first.
-- Served by post_answers.
select p.created_at, true, null,
       (select d.label from moderation_current m join moderation_decision d using (decision_id)
        where m.object_id = p.post_id and m.effect = 'label') as label,
       p.post_id, p.author_id, p.visibility, p.text, p.version, p.state, p.media_ids, p.reply_to, p.root_id, p.quote_of,
       p.is_pushed, p.created_at, p.edited_at
from post p
where p.reply_to = %(post_id)s::text and p.state = 'published'
  and (p.created_at, p.post_id) > (%(at)s::bigint, %(id)s::text)
  and exists (select from social_sees(%(viewer)s::text, p.post_id, p.author_id, p.visibility, p.state))
order by p.created_at, p.post_id limit %(count)s::int
