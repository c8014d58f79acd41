-- Records of the topic of usage that do not count, for people: what they said of usage, why they do not count, and what became
-- of them. Bounded for each sender and in age. What is sent again is judged again by who meters, and counted at most once.
create table usage_refused (
    refused_id  text collate "C" primary key,
    partition   integer not null,
    "offset"    bigint not null,
    reason      text collate "C" not null,
    sender      text collate "C" not null,             -- '' = nobody who is known
    said_tenant text collate "C" not null,             -- of its key; believed of no one
    record_key  text not null,
    said        text not null check (octet_length(said) <= 16384),
    fields      text[] not null default '{}',
    is_whole    boolean not null,                      -- else said is what it looked like, and it never counts
    bytes       integer not null,
    appended_at timestamptz not null,                  -- by the broker's clock: its age is judged by that, whenever it is
    refused_at  timestamptz not null default now(),
    state       text collate "C" not null default 'open'
                check (state in ('open', 'asked', 'counted', 'repeated', 'contradicted', 'discarded')),
    decided_at  timestamptz,
    decided_by  text,
    note        text
);
create index usage_refused_bound on usage_refused (partition, sender);
create index usage_refused_age on usage_refused (refused_at);
create index usage_refused_in_order on usage_refused ((state not in ('open', 'asked')), refused_at desc, refused_id);
create index usage_refused_asked on usage_refused (decided_at) where state = 'asked';

-- Who meters keeps what it refuses, and says what became of what is asked; people decide through the function alone.
grant select, insert (refused_id, partition, "offset", reason, sender, said_tenant, record_key, said, fields, is_whole, bytes, appended_at),
    update (state, reason) on usage_refused to millrace_tenancy_metering;
grant select on usage_refused to millrace_operator, millrace_console;

-- The word: what was decided, 'not_found', 'not_whole', 'unsigned', or 'is_<state>' of what is decided already.
create function usage_refused_decide(of_id text, decision text, by_person text, said_note text) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    known public.usage_refused;
begin
    if decision not in ('asked', 'discarded') then
        raise exception 'no decision about refused usage: %', decision;
    end if;
    select * into known from public.usage_refused u where u.refused_id = of_id for update;
    if not found then
        return 'not_found';
    elsif known.state <> 'open' then
        return 'is_' || known.state;
    elsif decision = 'asked' and not known.is_whole then
        return 'not_whole';
    elsif decision = 'asked' and known.sender = '' then
        return 'unsigned';
    end if;
    update public.usage_refused u set state = decision, decided_at = now(), decided_by = by_person, note = said_note
    where u.refused_id = of_id;
    perform public.audit_append(by_person, case decision when 'asked' then 'usage.send' else 'usage.discard' end, of_id, 'done',
                                jsonb_build_object('note', said_note));
    return decision;
end $$;

-- What is older than 35 days, however it was decided; never what is asked and not judged yet.
create function usage_refused_remove(at_most integer) returns bigint
language sql security definer set search_path = pg_catalog, pg_temp as $$
    with gone as (
        delete from public.usage_refused where refused_id in (
            select u.refused_id from public.usage_refused u
            where u.refused_at < now() - interval '35 days' and u.state <> 'asked' order by u.refused_at limit at_most)
        returning 1)
    select count(*) from gone
$$;

revoke all on function usage_refused_decide(text, text, text, text), usage_refused_remove(integer) from public;
grant execute on function usage_refused_decide(text, text, text, text) to millrace_operator, millrace_ingress;
grant execute on function usage_refused_remove(integer) to millrace_tenancy_metering;
