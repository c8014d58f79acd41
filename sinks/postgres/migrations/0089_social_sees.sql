-- The rule of who sees a post, as a condition on a row of post that a statement has already read: Postgres writes it into
-- that statement, so the rule costs its look-ups and nothing else. A function over arrays was planned anew at every read.

-- One row where the reader may see the post of these columns, none where it may not.
create function social_sees(reader text, post_id text, author_id text, visibility text, state text)
returns table (is_seen boolean)
language sql stable parallel safe
begin atomic
    select true
    from author a
    where a.user_id = social_sees.author_id and social_sees.state = 'published' and a.state not in ('deleting', 'deleted')
      and (a.user_id = reader
           or (a.state = 'active'
               and social_sees.visibility <> 'private'
               and not exists (select from moderation_current m
                               where m.object_id = social_sees.post_id and m.effect = 'remove')
               and not exists (select from block b
                               where b.user_id = social_sees.author_id and b.target_id = reader and b.state = 'active')
               and not exists (select from block b
                               where b.user_id = reader and b.target_id = social_sees.author_id and b.state = 'active')
               and ((social_sees.visibility = 'public' and not a.is_private)
                    or exists (select from follow f
                               where f.follower_id = reader and f.followee_id = social_sees.author_id
                                 and f.state = 'active'))));
end;

-- The same rule over pairs of reader and post.
create or replace function social_authorize(viewers text[], posts text[]) returns table (viewer text, post_id text)
language sql stable parallel safe
begin atomic
    select asked.viewer, p.post_id
    from unnest(viewers, posts) as asked (viewer, post_id)
    join post p on p.post_id = asked.post_id
    cross join lateral social_sees(asked.viewer, p.post_id, p.author_id, p.visibility, p.state);
end;
