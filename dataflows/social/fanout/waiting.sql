-- What fan-out puts off. The table has hundreds of rows at most, so each statement reads all of it.

-- name: waiting_put
-- One task, while there is room for it.
insert into fanout_waiting (kind, user_id, target_id, version, homes, post_ids, deliveries)
select %(kind)s, %(user_id)s, %(target_id)s, %(version)s, %(homes)s::text[], %(post_ids)s::text[], %(deliveries)s::bigint
where (select coalesce(sum(deliveries), 0) from fanout_waiting) + %(deliveries)s::bigint <= %(most)s
returning task_id;

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
