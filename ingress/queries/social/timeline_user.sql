-- The next posts of an author below a place that the viewer may see, and no others: a page that were short, or had a next
-- one, for posts that are hidden would say that there are some. Whoever sees no post of the author is asked about once, not
-- post by post. Served by post_of_author.
select p.created_at, true, null,
       (select json_agg(json_build_array(l.label, l.policy_version, l.expires_at, l.decision_id) order by l.version desc)
        from moderation_label l where l.object_id = p.post_id) as labels,
       p.post_id, p.author_id, p.visibility, p.text, p.version, p.state, p.media_ids, p.reply_to, p.root_id, p.quote_of,
       p.is_pushed, p.created_at, p.edited_at
from post p
where p.author_id = %(author_id)s::text and p.state = 'published'
  and (p.created_at, p.post_id) < (%(at)s::bigint, %(id)s::text)
  and exists (select from social_sees(%(viewer)s::text, '', %(author_id)s::text, 'public', 'published'))
  and exists (select from social_sees(%(viewer)s::text, p.post_id, p.author_id, p.visibility, p.state))
order by p.created_at desc, p.post_id desc limit %(count)s::int
