-- The next posts of a thread above a place that the viewer may see, and no others, as of an author: the root has time 0,
-- its replies follow, oldest first. Served by post_of_thread.
select at, true, null,
       (select json_agg(json_build_array(l.label, l.policy_version, l.expires_at, l.decision_id) order by l.version desc)
        from moderation_label l where l.object_id = found.post_id) as labels,
       post_id, author_id, visibility, text, version, state, media_ids, reply_to, root_id, quote_of, is_pushed, created_at,
       edited_at
from ((select 0::bigint as at, r.* from post r
       where r.post_id = %(root_id)s::text and r.state = 'published' and (0, r.post_id) > (%(at)s::bigint, %(id)s::text)
         and exists (select from social_sees(%(viewer)s::text, r.post_id, r.author_id, r.visibility, r.state)))
      union all
      (select p.created_at, p.* from post p
       where p.root_id = %(root_id)s::text and p.post_id <> p.root_id and p.state = 'published'
         and (p.created_at, p.post_id) > (%(at)s::bigint, %(id)s::text)
         and exists (select from social_sees(%(viewer)s::text, p.post_id, p.author_id, p.visibility, p.state))
       order by p.created_at, p.post_id limit %(count)s::int)) as found
order by at, post_id limit %(count)s::int
