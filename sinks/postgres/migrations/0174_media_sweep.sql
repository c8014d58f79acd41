-- Whose bytes are to be taken away. Written in the transaction that ends a medium, whoever makes it, so that a sweep asks
-- for these alone, and not for all that ever ended.

create table media_sweep (
    media_id text collate "C" primary key references media,
    ended_at timestamptz not null,
    next_at  timestamptz not null
);
create index media_sweep_due on media_sweep (next_at);
comment on table media_sweep is 'Media that ended, until nobody can write bytes of them any more.';
grant select on media_sweep to millrace_operator, millrace_reader;
grant select, update, delete on media_sweep to millrace_social_scanner;

create function social_note_ended() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    insert into media_sweep (media_id, ended_at, next_at) values (new.media_id, clock_timestamp(), clock_timestamp())
    on conflict (media_id) do nothing;
    return null;
end $$;
create trigger medium_has_ended after update of scan_state on media for each row
    when (new.scan_state in ('checksum_failed', 'infected', 'rejected', 'expired', 'deleted')
          and old.scan_state is distinct from new.scan_state)
    execute function social_note_ended();

-- What ended before is looked at once more: something may have been written after it was swept.
insert into media_sweep (media_id, ended_at, next_at)
select media_id, clock_timestamp(), clock_timestamp() from media
where scan_state in ('checksum_failed', 'infected', 'rejected', 'expired', 'deleted');
