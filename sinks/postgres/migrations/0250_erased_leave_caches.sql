-- Media and posts of who is erased leave no row of their own to be looked after: caches were to forget all of the author with
-- the row that its own end left, and the eraser proves it. Ten thousand rows would be asked for by hundreds of thousands of
-- URLs, beside the erasure.
create or replace function social_note_hidden() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    -- what an erasure hides is hidden for good: no other state comes after these
    if tg_table_name <> 'author' and exists (
        select from author a where a.user_id = coalesce(to_jsonb(new) ->> 'owner_id', to_jsonb(new) ->> 'author_id')
                               and a.state in ('deleting', 'deleted')) then
        return null;
    end if;
    insert into media_hidden as h (object_id, hidden_at, next_at)
    values (to_jsonb(new) ->> tg_argv[0], clock_timestamp(), clock_timestamp())
    on conflict (object_id) do update set hidden_at = excluded.hidden_at, next_at = excluded.next_at, attempts = 0;
    return null;
end $$;
