-- A content is refused from the moment on that its block says, whoever writes it: owners that are about to take one are
-- waited for, and those that come later find it (media_block_waits of their statements). Before any row is made, so that
-- its time is one after that.

create function media_block_waits() returns trigger
language plpgsql set search_path = pg_catalog, public as $$
begin
    perform pg_advisory_xact_lock(hashtextextended('millrace:media:blocked', 0));
    return null;
end $$;
create trigger block_waits before insert on media_blocked for each statement execute function media_block_waits();
