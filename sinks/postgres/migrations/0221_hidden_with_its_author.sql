-- Media and posts of who is hidden already are in no cache: the account itself was noted, is purged by the key that all of
-- its media have, and is looked after. An erasure of ten thousand media wrote a row for each, and one for each of its posts.

create or replace function social_note_hidden() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    if tg_table_name <> 'author' and exists (
        select from author a where a.state <> 'active'
          and a.user_id = coalesce(to_jsonb(new) ->> 'author_id', to_jsonb(new) ->> 'owner_id')) then
        return null;
    end if;
    insert into media_hidden as h (object_id, hidden_at, next_at)
    values (to_jsonb(new) ->> tg_argv[0], clock_timestamp(), clock_timestamp())
    on conflict (object_id) do update set hidden_at = excluded.hidden_at, next_at = excluded.next_at, attempts = 0;
    return null;
end $$;
