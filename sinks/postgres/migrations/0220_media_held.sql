-- How many bytes of media a user holds, and how many it may: nobody fills the store that all share.

-- What is not ended counts as long as it was declared, from the first call of its upload on. Written in the transaction that
-- changes it, whoever makes it; read where an upload is begun, in the one partition that decides them all.
create table media_held (
    user_id text collate "C" primary key references author,
    bytes   bigint not null check (bytes >= 0)
);
-- An operator's: of one user, or of all who have no row of their own. Without either nothing is refused.
create table media_quota (
    user_id text collate "C" primary key,
    bytes   bigint not null check (bytes >= 0)
);
comment on table media_quota is 'How many bytes of media a user may hold; * is everybody without a row.';
insert into media_quota (user_id, bytes) values ('*', 10::bigint * 1024 * 1024 * 1024);

create function social_count_held() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    if tg_op = 'INSERT' then
        insert into media_held as h (user_id, bytes) values (new.owner_id, new.size)
        on conflict (user_id) do update set bytes = h.bytes + excluded.bytes;
    else
        update media_held h set bytes = h.bytes - old.size where h.user_id = old.owner_id;
    end if;
    return null;
end $$;
create trigger medium_is_held after insert on media for each row
    when (new.scan_state in ('initiated', 'scanning', 'ready')) execute function social_count_held();
create trigger medium_is_let_go after update of scan_state on media for each row
    when (old.scan_state in ('initiated', 'scanning', 'ready') and new.scan_state not in ('initiated', 'scanning', 'ready'))
    execute function social_count_held();

insert into media_held (user_id, bytes)
select owner_id, sum(size) from media where scan_state in ('initiated', 'scanning', 'ready') group by owner_id;

grant select on media_held, media_quota to millrace_social_owner, millrace_operator, millrace_reader;
grant insert, update, delete on media_quota to millrace_operator;
