-- Who is not let in any more: a merchant, a tenant, a user, a person (subject), or one token (its jti). Every door reads the
-- list once a second. A row is whole for ever, or only for tokens that were issued before a moment.

create table access_denied (
    kind          text collate "C" not null check (kind in ('merchant', 'tenant', 'user', 'subject', 'token')),
    name          text collate "C" not null,
    issued_before timestamptz,                    -- null: whenever its tokens were issued
    ends_at       timestamptz,                    -- when no token that it refuses can live any more; null: until it is lifted
    reason        text not null,
    denied_by     text collate "C" not null,
    denied_at     timestamptz not null default clock_timestamp(),
    primary key (kind, name)
);
-- One row: rises with every change, in the transaction of the change, so that a reader with the newest version has all rows.
create table access_denied_version (
    only_row boolean primary key default true check (only_row),
    version  bigint not null
);
insert into access_denied_version (version) values (1);
grant select on access_denied, access_denied_version to millrace_ingress, millrace_vault, millrace_social_media,
    millrace_operator, millrace_console;

comment on table access_denied is 'Who is refused at every door within seconds, by merchant, tenant, user, person or token';
comment on table access_denied_version is 'Rises with every change of access_denied: what processes compare once a second';

-- word: 'denied', 'known' (it was refused as much before), or 'too_many'. What has ended goes with the next change.
create function access_deny(p_kind text, p_name text, p_so_far boolean, p_reason text, p_actor text, p_rows_max integer,
                            p_token_life interval)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    before access_denied;
    moment timestamptz;
begin
    update access_denied_version set version = version + 1;  -- its lock orders changes
    moment := clock_timestamp();
    delete from access_denied where ends_at < moment;
    select * into before from access_denied where kind = p_kind and name = p_name;
    if found and before.issued_before is null then
        return 'known';
    end if;
    if not found and (select count(*) from access_denied) >= p_rows_max then
        return 'too_many';
    end if;
    insert into access_denied as d (kind, name, issued_before, ends_at, reason, denied_by)
    values (p_kind, p_name, case when p_so_far then moment end,
            case when p_so_far or p_kind = 'token' then moment + p_token_life end, p_reason, p_actor)
    on conflict (kind, name) do update set issued_before = excluded.issued_before, ends_at = excluded.ends_at,
        reason = excluded.reason, denied_by = excluded.denied_by, denied_at = excluded.denied_at;
    perform audit_append(p_actor, 'access.deny_' || p_kind, p_name, 'done',
                         jsonb_build_object('reason', p_reason, 'tokens_so_far', p_so_far));
    return 'denied';
end $$;

-- word: 'lifted' or 'not_found'.
create function access_lift(p_kind text, p_name text, p_reason text, p_actor text)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
begin
    update access_denied_version set version = version + 1;
    delete from access_denied where kind = p_kind and name = p_name;
    if not found then
        return 'not_found';
    end if;
    perform audit_append(p_actor, 'access.lift_' || p_kind, p_name, 'done', jsonb_build_object('reason', p_reason));
    return 'lifted';
end $$;

revoke all on function access_deny, access_lift from public;
grant execute on function access_deny, access_lift to millrace_ingress, millrace_operator;
