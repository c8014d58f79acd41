-- What a post has had: likes and reposts of users who are there, and the replies that the viewer may see.
select (select count(*) from reaction r join author a on a.user_id = r.user_id and a.state = 'active'
        where r.post_id = %(id)s::text and r.kind = 'like' and r.state = 'active'),
       (select count(*) from reaction r join author a on a.user_id = r.user_id and a.state = 'active'
        where r.post_id = %(id)s::text and r.kind = 'repost' and r.state = 'active'),
       (select count(*)
        from (select array_agg(%(viewer)s::text) as viewers, array_agg(r.post_id) as ids from post r
              where r.reply_to = %(id)s::text and r.state = 'published') as replies
        cross join lateral social_authorize(replies.viewers, replies.ids))
