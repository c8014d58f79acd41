-- A content is refused from the moment on that its block says: owners that are about to take one are waited for, and those
-- that come later find it (media_block_waits of their statements).

create or replace function media_block(by_person text, hash text, said text) returns text
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    perform pg_advisory_xact_lock(hashtextextended('millrace:media:blocked', 0));
    insert into media_blocked (sha256, reason, added_by) values (hash, said, by_person) on conflict (sha256) do nothing;
    if not found then
        return 'already_blocked';
    end if;
    perform audit_append(by_person, 'media.block', hash, 'done', jsonb_build_object('note', said));
    return 'blocked';
end $$;
