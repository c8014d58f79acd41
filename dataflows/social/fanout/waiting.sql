-- What fan-out puts off. The table has hundreds of rows at most, so each statement reads all of it.

-- name: waiting_put
-- One task, while there is room for it, of those alone who are not erased: an eraser looks for the others, and certifies that
-- there are none. Whether it waits, or nobody is left whom it concerns; what ended is out of homes at once then. Primary keys.
with gone as materialized (
    select a.user_id from author a
    where a.user_id = any (%(homes)s::text[] || array[%(user_id)s, %(target_id)s]::text[]) and a.state in ('deleting', 'deleted')),
over as (select exists (select from gone where user_id in (%(user_id)s, %(target_id)s)) as is_over),
put as (
    insert into fanout_waiting (kind, user_id, target_id, version, homes, post_ids, deliveries)
    select %(kind)s, %(user_id)s, %(target_id)s, %(version)s,
           array(select h.home from unnest(%(homes)s::text[]) with ordinality as h (home, n)
                 where h.home not in (select user_id from gone) order by h.n),
           %(post_ids)s::text[], %(deliveries)s::bigint
    from over
    where not is_over
      and (select coalesce(sum(deliveries), 0) from fanout_waiting) + %(deliveries)s::bigint <= %(most)s
    returning 1)
select exists (select from put) or (is_over and %(kind)s <> 'ended') from over;

-- name: waiting_next
-- The next ones of each kind, those of posts first, and of a kind one of each user before a second one of any: whoever has
-- very many keeps nobody waiting. What another process is at is left to it.
select kind, user_id, target_id, version, homes, post_ids, task_id from fanout_waiting
where task_id in (
    select task_id from (
        select task_id, row_number() over (partition by kind order by turn, task_id) as place from (
            select task_id, kind, row_number() over (partition by kind, user_id order by task_id) as turn
            from fanout_waiting) as turns) as places
    where place <= %(count)s)
order by kind = 'posts' desc, kind = 'edge' desc, task_id
for update skip locked;

-- name: waiting_done
-- Tasks that are done. Primary key.
delete from fanout_waiting where task_id = any (%(tasks)s::bigint[]);

-- name: waiting_deliveries
-- How much waits.
select coalesce(sum(deliveries), 0)::bigint from fanout_waiting;
