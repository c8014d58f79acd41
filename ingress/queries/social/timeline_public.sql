-- The next public posts below a place: what all users may see, and no decision limits: of it, its author or its media. Served by post_public.
with candidates as (
    select c.created_at as at, c.post_id from post c
    where c.visibility = 'public' and c.state = 'published'
      and (c.created_at, c.post_id) < (%(at)s::bigint, %(id)s::text)
    order by c.created_at desc, c.post_id desc limit %(count)s::int)
select c.at,
       exists (select from social_sees(%(viewer)s::text, p.post_id, p.author_id, p.visibility, p.state)) and not a.is_private
       and not exists (select from moderation_current m
                       where m.object_id = any (array[p.post_id, p.author_id] || p.media_ids) and m.effect = 'limit'), null,
       (select json_agg(json_build_array(l.label, l.policy_version, l.expires_at, l.decision_id) order by l.version desc)
        from moderation_label l where l.object_id = p.post_id) as labels,
       p.post_id, p.author_id, p.visibility, p.text, p.version, p.state, p.media_ids, p.reply_to, p.root_id, p.quote_of,
       p.is_pushed, p.created_at, p.edited_at
from candidates c join post p using (post_id) join author a on a.user_id = p.author_id
order by c.at desc, c.post_id desc
