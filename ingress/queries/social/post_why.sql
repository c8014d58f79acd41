-- What decides whether a post is shown to the viewer, of one that it may see or that is its own; no row of any other, whether there
-- is one or not. Who is followed and reposts it is looked for by the followed. Primary keys.
select p.author_id, p.author_id = %(viewer)s::text as is_own, p.state, p.visibility, a.is_private, a.state = 'suspended' as is_suspended,
       exists (select from follow f where f.follower_id = %(viewer)s::text and f.followee_id = p.author_id
                 and f.state = 'active') as is_followed,
       exists (select from mute m where m.user_id = %(viewer)s::text and m.target_id = p.author_id
                 and m.state = 'active') as is_muted,
       (select r.user_id from follow f
        join reaction r on r.post_id = p.post_id and r.kind = 'repost' and r.user_id = f.followee_id and r.state = 'active'
        join author w on w.user_id = r.user_id and w.state = 'active'
        where f.follower_id = %(viewer)s::text and f.state = 'active'
          and not exists (select from mute m where m.user_id = %(viewer)s::text and m.target_id = r.user_id
                            and m.state = 'active')
        order by r.updated_at, r.user_id limit 1) as reposted_by
from post p join author a on a.user_id = p.author_id
where p.post_id = %(id)s::text
  and (p.author_id = %(viewer)s::text
       or exists (select from social_sees(%(viewer)s::text, p.post_id, p.author_id, p.visibility, p.state)))
