-- Maintenance: new work of merchants is switched off and on by versions of a policy, over HTTP or from the shell.

alter table policy_version drop constraint policy_version_kind_check;
alter table policy_version add constraint policy_version_kind_check
    check (kind in ('risk', 'routing', 'fees', 'maintenance'));

-- As before; and the audit row repeats the reason of what has one.
create or replace function policy_publish(p_kind text, p_expected integer, p_body text, p_author text)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    active policy_version;
    current integer;
begin
    perform pg_advisory_xact_lock(hashtextextended('millrace:policy:' || p_kind, 0));
    select * into active from policy_version where kind = p_kind and state = 'active';
    current := coalesce(active.version, 0);
    if current = p_expected + 1 and active.body = p_body and active.author = p_author then
        return 'known';
    end if;
    if current <> p_expected then
        return 'conflict_' || current;
    end if;
    if p_kind = 'fees' and (p_body::jsonb ->> 'effective_at')::timestamptz < clock_timestamp() + interval '1 minute' then
        return 'early';
    end if;
    update policy_version set state = 'retired' where kind = p_kind and state = 'active';
    insert into policy_version (kind, version, body, state, author) values (p_kind, current + 1, p_body, 'active', p_author);
    perform audit_append(p_author, p_kind || '_policy.publish', p_kind || ':' || (current + 1), 'done',
                         jsonb_strip_nulls(jsonb_build_object(
                             'version', current + 1,
                             'body_sha256', encode(sha256(convert_to(p_body, 'UTF8')), 'hex'),
                             'on', case when p_kind = 'maintenance' then p_body::jsonb -> 'on' end,
                             'reason', case when p_kind = 'maintenance' then p_body::jsonb -> 'reason' end)));
    return 'published';
end $$;

-- The shell's door, for this kind alone: publishes over whatever is active. The version that is in force then; what is in
-- force already, word for word, is not published again.
create function maintenance_switch(p_body text, p_author text)
returns integer language plpgsql security definer set search_path = public, pg_temp as $$
declare
    active policy_version;
begin
    if jsonb_typeof(p_body::jsonb -> 'on') is distinct from 'boolean' or coalesce(p_body::jsonb ->> 'reason', '') = '' then
        raise exception 'maintenance is {"on": true or false, "reason": text}' using errcode = 'check_violation';
    end if;
    perform pg_advisory_xact_lock(hashtextextended('millrace:policy:maintenance', 0));
    select * into active from policy_version where kind = 'maintenance' and state = 'active';
    if active.body = p_body then
        return active.version;
    end if;
    perform policy_publish('maintenance', coalesce(active.version, 0), p_body, p_author);
    return coalesce(active.version, 0) + 1;
end $$;
revoke all on function maintenance_switch from public;
grant execute on function maintenance_switch to millrace_operator;
