-- Risk: who publishes policies and how, what the ingress may know of a card, and the cases that reviews open.

-- An attempt that the risk rules blocked was never sent: it does not keep the next one from being made.
-- The column is made anew, because its expression cannot be changed before Postgres 17; the table is rewritten once.
alter table processor_attempt drop column live_charge;
alter table processor_attempt add column live_charge boolean not null generated always as
    (kind in ('authorize', 'purchase') and status not in ('declined', 'failed', 'voided', 'blocked')) stored;
create unique index processor_attempt_one_charge on processor_attempt (intent_id) where live_charge;

-- A published version never changes: of its row only the state may go from active to retired.
create function policy_keep_content() returns trigger language plpgsql as $$
begin
    if tg_op <> 'UPDATE' or (new.kind, new.version, new.body, new.author, new.created_at)
        is distinct from (old.kind, old.version, old.body, old.author, old.created_at)
        or (old.state, new.state) is distinct from ('active', 'retired') then
        raise exception 'a published policy never changes: % on policy_version is refused', tg_op using errcode = 'LE001';
    end if;
    return new;
end $$;
create trigger policy_version_kept before update or delete on policy_version
    for each row execute function policy_keep_content();
create trigger policy_version_whole before truncate on policy_version
    for each statement execute function audit_refuse_change();

-- The next version, if p_expected is the active one (0 = none yet): 'published', or 'conflict_<active>'. The same author
-- who says the same again hears 'known': a retry whose answer was lost. One publisher of a kind at a time.
create function policy_publish(p_kind text, p_expected integer, p_body text, p_author text)
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
    update policy_version set state = 'retired' where kind = p_kind and state = 'active';
    insert into policy_version (kind, version, body, state, author) values (p_kind, current + 1, p_body, 'active', p_author);
    perform audit_append(p_author, p_kind || '_policy.publish', p_kind || ':' || (current + 1), 'done',
                         jsonb_build_object('version', current + 1,
                                            'body_sha256', encode(sha256(convert_to(p_body, 'UTF8')), 'hex')));
    return 'published';
end $$;
revoke all on function policy_publish from public;
grant execute on function policy_publish to millrace_ingress;

-- What velocity counters and lists know of a merchant's own card: never a number. Primary key of vault.card.
create view vault.card_signals with (security_barrier) as
    select id, merchant_id, fingerprint, network from vault.card where deleted_at is null;
grant select on vault.card_signals to millrace_ingress;

-- The owner opens and closes the case of a review in the commit that decides it.
grant insert, update (state, resolved_at, resolved_by, note) on repair_case to millrace_owner;
