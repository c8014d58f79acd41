-- Media for operators: what each waits for, and decisions about contents and scans, each audited in its own transaction.

alter table media_scan add column seen text;
comment on column media_scan.seen is 'What its last scan did or met: why it waits, or why it was rejected.';
alter table media_blocked add column added_by text;
create index media_blocked_newest on media_blocked (added_at, sha256);

-- A content is refused from now on, wherever it comes from. What is served already is for moderators to take down.
create function media_block(by_person text, hash text, said text) returns text
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    insert into media_blocked (sha256, reason, added_by) values (hash, said, by_person) on conflict (sha256) do nothing;
    if not found then
        return 'already_blocked';
    end if;
    perform audit_append(by_person, 'media.block', hash, 'done', jsonb_build_object('note', said));
    return 'blocked';
end $$;

create function media_unblock(by_person text, hash text, said text) returns text
language plpgsql security definer set search_path = pg_catalog, public as $$
declare
    before media_blocked;
begin
    delete from media_blocked where sha256 = hash returning * into before;
    if not found then
        return 'not_found';
    end if;
    perform audit_append(by_person, 'media.unblock', hash, 'done',
                         jsonb_build_object('note', said, 'reason', before.reason, 'added_by', before.added_by));
    return 'lifted';
end $$;

-- Its next scan is due now, however often it failed. One under way goes on; whichever answer comes first is the only one.
create function media_retry(by_person text, medium text, said text) returns text
language plpgsql security definer set search_path = pg_catalog, public as $$
declare
    known text;
begin
    select scan_state into known from media where media_id = medium for share;
    if known is null then
        return 'not_found';
    elsif known <> 'scanning' then
        return 'not_waiting';
    end if;
    update media_scan set leased_until = clock_timestamp(), tries = 0, crashes = 0 where media_id = medium;
    perform audit_append(by_person, 'media.retry', medium, 'done', jsonb_build_object('note', said));
    return 'retried';
end $$;

revoke all on function media_block(text, text, text), media_unblock(text, text, text), media_retry(text, text, text) from public;
grant execute on function media_block(text, text, text), media_unblock(text, text, text), media_retry(text, text, text)
    to millrace_ingress, millrace_operator;
grant select on media_scan, media_blocked to millrace_console;
grant select (media_id, owner_id, mime, size, sha256, scan_state, attached_post_id, created_at, updated_at) on media to millrace_console;
