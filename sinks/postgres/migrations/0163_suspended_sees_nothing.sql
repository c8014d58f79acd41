-- Nobody sees a post of a suspended author, it itself included: the rule of 0089, with the state of the author before all else.

create or replace function social_sees(reader text, post_id text, author_id text, visibility text, state text)
returns table (is_seen boolean)
language sql stable parallel safe
begin atomic
    select true
    from author a
    where a.user_id = social_sees.author_id and social_sees.state = 'published' and a.state = 'active'
      and (a.user_id = reader
           or (social_sees.visibility <> 'private'
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
