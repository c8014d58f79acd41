-- Fee policies: what the platform takes of captures, by merchant, from a time on.

alter table policy_version drop constraint policy_version_kind_check;
alter table policy_version add constraint policy_version_kind_check check (kind in ('risk', 'routing', 'fees'));

-- As before; and fees are in force a minute after they are published at the earliest ('early' otherwise). A payment keeps
-- the terms of the moment when it was made, so no version may begin before every owner has read it (limits.FEE_LEAD_S).
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
                         jsonb_build_object('version', current + 1,
                                            'body_sha256', encode(sha256(convert_to(p_body, 'UTF8')), 'hex')));
    return 'published';
end $$;
