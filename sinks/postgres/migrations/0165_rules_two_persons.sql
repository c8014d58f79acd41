-- Contracts price what processors take, and a bank rule takes entries of a bank out of everybody's sight: published as fees
-- are, by two persons. What one person published before stays in force.

alter table policy_proposal drop constraint policy_proposal_kind_check;
alter table policy_proposal add constraint policy_proposal_kind_check
    check (kind in ('fees', 'routing', 'reference_rates', 'processor_fees', 'bank_rules'));

-- As in 0096, with two kinds more.
create or replace function policy_publish(p_kind text, p_expected integer, p_body text, p_author text)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    active policy_version;
    current integer;
    proposer text;
begin
    perform pg_advisory_xact_lock(hashtextextended('millrace:policy:' || p_kind, 0));
    select * into active from policy_version where kind = p_kind and state = 'active';
    current := coalesce(active.version, 0);
    if current = p_expected + 1 and active.body = p_body and p_author in (active.author, active.approved_by) then
        return 'known';
    end if;
    if current <> p_expected then
        return 'conflict_' || current;
    end if;
    if p_kind = 'fees' and (p_body::jsonb ->> 'effective_at')::timestamptz < clock_timestamp() + interval '1 minute' then
        return 'early';
    end if;
    if p_kind in ('fees', 'routing', 'reference_rates', 'processor_fees', 'bank_rules') then
        select author into proposer from policy_proposal
        where kind = p_kind and expected = p_expected and body = p_body and author <> p_author
        order by proposed_at limit 1;
        if not found then
            insert into policy_proposal as p (kind, expected, author, body) values (p_kind, p_expected, p_author, p_body)
            on conflict (kind, expected, author) do update set body = excluded.body, proposed_at = clock_timestamp()
                where p.body <> excluded.body;
            if found then
                perform audit_append(p_author, p_kind || '_policy.propose', p_kind || ':' || (current + 1), 'done',
                                     jsonb_build_object('version', current + 1, 'body_sha256',
                                                        encode(sha256(convert_to(p_body, 'UTF8')), 'hex')));
            end if;
            return 'proposed';
        end if;
    end if;
    update policy_version set state = 'retired' where kind = p_kind and state = 'active';
    insert into policy_version (kind, version, body, state, author, approved_by)
    values (p_kind, current + 1, p_body, 'active', coalesce(proposer, p_author), case when proposer is not null then p_author end);
    delete from policy_proposal where kind = p_kind and expected <= p_expected;
    perform audit_append(p_author, p_kind || '_policy.publish', p_kind || ':' || (current + 1), 'done',
                         jsonb_strip_nulls(jsonb_build_object(
                             'version', current + 1,
                             'proposed_by', proposer,
                             'body_sha256', encode(sha256(convert_to(p_body, 'UTF8')), 'hex'),
                             'on', case when p_kind = 'maintenance' then p_body::jsonb -> 'on' end,
                             'reason', case when p_kind = 'maintenance' then p_body::jsonb -> 'reason' end)));
    return 'published';
end $$;
