-- What is read of many posts, likes and reposts does not grow with how many there are.

-- Posts by their times, whoever may see them: of words that many posts have, a search reads the newest alone. Of all posts,
-- although it asks for published ones: of two indexes with one predicate the planner never combines what they find.
create index post_by_time on post (created_at);

-- How many like and repost a post, in parts: each session writes one of its own, so that nobody waits where many like the same.
create table reaction_count (
    post_id text collate "C" not null references post,
    kind    text collate "C" not null check (kind in ('like', 'repost')),
    part    smallint not null,
    active  bigint not null,  -- may be below 0: what one session counted, another one takes back
    primary key (post_id, kind, part)
) with (fillfactor = 70);
comment on table reaction_count is 'Active likes and reposts of a post are the sum of its parts.';
grant select on reaction_count to millrace_ingress, millrace_operator, millrace_reader;

-- Whoever writes reactions, an owner of an earlier release and an eraser, too. In the order of the key: sessions that share a
-- part do not wait in a circle within a statement.
create function social_count_reactions() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    if tg_op = 'INSERT' then
        insert into reaction_count as c (post_id, kind, part, active)
        select post_id, kind, pg_backend_pid() % 64, count(*) from written where state = 'active'
        group by post_id, kind order by post_id, kind
        on conflict (post_id, kind, part) do update set active = c.active + excluded.active;
    else
        insert into reaction_count as c (post_id, kind, part, active)
        select post_id, kind, pg_backend_pid() % 64, sum(n) from (
            select post_id, kind, 1 as n from written where state = 'active'
            union all select post_id, kind, -1 from before where state = 'active') as changed
        group by post_id, kind having sum(n) <> 0 order by post_id, kind
        on conflict (post_id, kind, part) do update set active = c.active + excluded.active;
    end if;
    return null;
end $$;
create trigger reactions_are_counted after insert on reaction
    referencing new table as written for each statement execute function social_count_reactions();
create trigger reactions_are_counted_again after update on reaction
    referencing old table as before new table as written for each statement execute function social_count_reactions();

insert into reaction_count (post_id, kind, part, active)
select post_id, kind, 0, count(*) from reaction where state = 'active' group by post_id, kind;
