-- What fan-out put off: it comes after the posts of everybody else, and after a kill it is still here.

-- posts: posts into homes that nobody read of late, or of an author with very many at once; edge: the newest posts of somebody who
-- is followed from now on; ended: a deleted post out of homes.
create table fanout_waiting (
    task_id    bigint generated always as identity primary key,
    kind       text collate "C" not null check (kind in ('posts', 'edge', 'ended')),
    user_id    text collate "C" not null,          -- whose turn it is: the author, or who follows
    target_id  text collate "C" not null default '',  -- of an edge: who is followed; of what ended: the post
    version    bigint not null default 0,          -- of the edge
    homes      text[] collate "C" not null default '{}',
    post_ids   text[] collate "C" not null default '{}',
    deliveries bigint not null check (deliveries > 0)  -- at most, so that what waits is bounded
);
comment on table fanout_waiting is 'What fan-out put off; bounded, and gone within seconds.';
grant select, insert, update, delete on fanout_waiting to millrace_social_worker;
grant select on fanout_waiting to millrace_operator, millrace_reader;
