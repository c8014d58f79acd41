-- Those of these posts that the viewer may see, each with the label that moderators gave it. Primary keys.
select (select d.label from moderation_current m join moderation_decision d using (decision_id)
        where m.object_id = p.post_id and m.effect = 'label') as label,
       p.post_id, p.author_id, p.visibility, p.text, p.version, p.state, p.media_ids, p.reply_to, p.root_id, p.quote_of,
       p.is_pushed, p.created_at, p.edited_at
from post p
where p.post_id = any (%(ids)s::text[])
  and exists (select from social_sees(%(viewer)s::text, p.post_id, p.author_id, p.visibility, p.state))
