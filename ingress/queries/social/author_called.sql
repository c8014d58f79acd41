-- A user who calls, made at its first call, in a commit that waits for the disk: its commands are in Kafka at once. Primary key.
with known as (select state from author where user_id = %(user_id)s::text),
     made as (insert into author (user_id) select %(user_id)s::text from set_config('synchronous_commit', 'on', true)
              where not exists (select from known)
              on conflict do nothing returning state)
select state from known union all select state from made
