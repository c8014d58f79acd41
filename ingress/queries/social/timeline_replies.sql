-- The next direct answers to a post above a place that the viewer may see, and no others, as of an author: oldest first.
-- Served by post_answers.
select p.created_at, true, null,
       (select json_agg(json_build_array(l.label, l.policy_version, l.expires_at, l.decision_id) order by l.version desc)
        from moderation_label l where l.object_id = p.post_id) as labels,
       p.post_id, p.author_id, p.visibility, p.text, p.version, p.state, p.media_ids, p.reply_to, p.root_id, p.quote_of,
       p.is_pushed, p.created_at, p.edited_at
from post p
where p.reply_to = %(post_id)s::text and p.state = 'published'
  and (p.created_at, p.post_id) > (%(at)s::bigint, %(id)s::text)
  and exists (select from social_sees(%(viewer)s::text, p.post_id, p.author_id, p.visibility, p.state))
order by p.created_at, p.post_id limit %(count)s::int
