-- What a post has had. Of few likes and reposts those of users who are there are counted; how many many are, the counters say,
-- with those of the suspended. Of replies as many as the viewer may see, among so many. Primary keys; post_answers.
select case when known.likes > %(most)s::int then known.likes else
           (select count(*) from reaction r join author a on a.user_id = r.user_id and a.state = 'active'
            where r.post_id = %(id)s::text and r.kind = 'like' and r.state = 'active') end,
       case when known.reposts > %(most)s::int then known.reposts else
           (select count(*) from reaction r join author a on a.user_id = r.user_id and a.state = 'active'
            where r.post_id = %(id)s::text and r.kind = 'repost' and r.state = 'active') end,
       (select count(*) from (select * from post where reply_to = %(id)s::text and state = 'published' limit %(most)s::int) p
        where exists (select from social_sees(%(viewer)s::text, p.post_id, p.author_id, p.visibility, p.state)))
from (select coalesce(sum(active) filter (where kind = 'like'), 0)::bigint as likes,
             coalesce(sum(active) filter (where kind = 'repost'), 0)::bigint as reposts
      from reaction_count where post_id = %(id)s::text) as known
