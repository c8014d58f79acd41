-- The key of a user's texts, made where there is none yet; null when it was destroyed. Primary key.
with known as (select key from author_key where user_id = %(user_id)s::text),
     made as (insert into author_key (user_id, key)
              select %(user_id)s::text, %(fresh)s::bytea where not exists (select from known)
              on conflict do nothing returning key)
select key from known union all select key from made
