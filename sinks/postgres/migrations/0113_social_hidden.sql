-- What was hidden and may still lie in a cache before the media origin: until somebody purged it, and looked.

-- One row for an author, a post or a medium; hidden again before it was looked after, it is the later one that counts.
create table media_hidden (
    object_id text collate "C" primary key,
    hidden_at timestamptz not null,
    next_at   timestamptz not null,
    attempts  integer not null default 0,
    seen      text                       -- where something was found at the last look
);
create index media_hidden_due on media_hidden (next_at);
grant select on media_hidden to millrace_operator, millrace_reader;
grant select, update, delete on media_hidden to millrace_social_propagation;

-- Written in the transaction that hides, whoever makes it, and by nothing else. The argument is the column of the id.
create function social_note_hidden() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    insert into media_hidden as h (object_id, hidden_at, next_at)
    values (to_jsonb(new) ->> tg_argv[0], clock_timestamp(), clock_timestamp())
    on conflict (object_id) do update set hidden_at = excluded.hidden_at, next_at = excluded.next_at, attempts = 0;
    return null;
end $$;
-- Only what anybody could see may lie in a cache. A decision is looked after by moderation_propagation.
create trigger author_leaves_caches after update of is_private, state on author for each row
    when (not old.is_private and old.state = 'active' and (new.is_private or new.state <> 'active'))
    execute function social_note_hidden('user_id');
create trigger post_leaves_caches after update of visibility, state on post for each row
    when (old.visibility = 'public' and old.state = 'published' and old.media_ids <> '{}'
          and (new.visibility <> 'public' or new.state <> 'published'))
    execute function social_note_hidden('post_id');
create trigger medium_leaves_caches after update of scan_state on media for each row
    when (old.scan_state = 'ready' and new.scan_state <> 'ready' and old.attached_post_id is not null)
    execute function social_note_hidden('media_id');
