-- How often a decoder was killed by somebody else: a kernel without memory does it to good media of a busy machine, for longer
-- than a decoder that crashes is tried again. An operator who tries a medium again begins to count anew.
alter table media_scan add column kills integer not null default 0;
comment on column media_scan.kills is 'Ends of its decoder by somebody else, seldom for its medium; of so many it is rejected.';

create or replace function media_retry(by_person text, medium text, said text) returns text
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
    update media_scan set leased_until = clock_timestamp(), tries = 0, crashes = 0, kills = 0 where media_id = medium;
    perform audit_append(by_person, 'media.retry', medium, 'done', jsonb_build_object('note', said));
    return 'retried';
end $$;
