-- What a post has had: likes and reposts of users who are there, and the replies that the viewer may see.
select (select count(*) from reaction r join author a on a.user_id = r.user_id and a.state = 'active'
        where r.post_id = %(id)s::text and r.kind = 'like' and r.state = 'active'),
       (select count(*) from reaction r join author a on a.user_id = r.user_id and a.state = 'active'
        where r.post_id = %(id)s::text and r.kind = 'repost' and r.state = 'active'),
       (select count(*) from post p
        where p.reply_to = %(id)s::text and p.state = 'published'
          and exists (select from social_sees(%(viewer)s::text, p.post_id, p.author_id, p.visibility, p.state)))
