-- Those of these posts that the viewer may see, each with the labels that moderators gave it. Primary keys.
select (select json_agg(json_build_array(l.label, l.policy_version, l.expires_at, l.decision_id) order by l.version desc)
        from moderation_label l where l.object_id = p.post_id) as labels,
       p.post_id, p.author_id, p.visibility, p.text, p.version, p.state, p.media_ids, p.reply_to, p.root_id, p.quote_of,
       p.is_pushed, p.created_at, p.edited_at
from post p
where p.post_id = any (%(ids)s::text[])
  and exists (select from social_sees(%(viewer)s::text, p.post_id, p.author_id, p.visibility, p.state))
