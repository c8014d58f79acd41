-- The key of a user's texts, made where there is none yet; null when it was destroyed. Primary key.
-- It is made in a commit that waits for the disk, unlike notes: what travels under it is in Kafka at once.
with known as (select key from author_key where user_id = %(user_id)s::text),
     made as (insert into author_key (user_id, key)
              select %(user_id)s::text, %(fresh)s::bytea from set_config('synchronous_commit', 'on', true)
              where not exists (select from known)
              on conflict do nothing returning key)
select key from known union all select key from made
