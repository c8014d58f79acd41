-- Where the limiter's counters are. Every version of the map is a row for ever; the newest is in force. A change inserts the
-- next version, so of two at once one is refused. Only operators change it.
create table limiter_shard_map (
    version    bigint primary key check (version >= 0),
    body       text not null,                        -- canonical JSON: shards with address (no secret) and epoch, pins
    changed_by text collate "C" not null,
    changed_at timestamptz not null default clock_timestamp()
);
-- One shard, without an address: the store that gateways are configured with.
insert into limiter_shard_map (version, body, changed_by)
values (0, '{"before":[],"pins":{},"shards":[{"address":null,"epoch":0,"name":"main","promoted":0,"promoted_at":0,"reserved":0}],"version":0}',
        'migration');

-- An epoch that went back would let an old primary decide again: whoever writes, the map cannot say so.
create function limiter_shard_map_check() returns trigger language plpgsql set search_path = public, pg_temp as $$
begin
    if tg_op <> 'INSERT' then
        raise exception 'versions of the shard map never change: % is refused', tg_op using errcode = 'LE001';
    end if;
    if new.version <> (select max(version) + 1 from limiter_shard_map) or (new.body::jsonb ->> 'version')::bigint <> new.version then
        raise exception 'version % does not follow the newest shard map', new.version using errcode = 'serialization_failure';
    end if;
    if exists (select 1
               from limiter_shard_map m, jsonb_array_elements(m.body::jsonb -> 'shards') was
               left join jsonb_array_elements(new.body::jsonb -> 'shards') now on now ->> 'name' = was ->> 'name'
               where m.version = new.version - 1
                 and ((now ->> 'epoch')::bigint >= (was ->> 'epoch')::bigint
                      and (now ->> 'reserved')::bigint >= (was ->> 'reserved')::bigint) is not true) then
        raise exception 'no shard may vanish, and no epoch may go back' using errcode = 'check_violation';
    end if;
    return new;
end $$;
create trigger limiter_shard_map_forward before insert or update or delete on limiter_shard_map
    for each row execute function limiter_shard_map_check();
create trigger limiter_shard_map_whole before truncate on limiter_shard_map
    for each statement execute function audit_refuse_change();

grant select, insert on limiter_shard_map to millrace_operator;
grant select on limiter_shard_map to millrace_owner, millrace_reader;
