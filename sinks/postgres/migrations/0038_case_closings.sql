-- Cases that need no money are closed by hand: with a reason, by two persons where what they say of money is repeated by
-- nothing else, never while what opened the case still stands, and with a way back. As repairs, through functions only.

create table case_closing (
    id            text collate "C" primary key,      -- derived from case, author and idempotency key
    case_id       text collate "C" not null references repair_case,
    reason        text collate "C" not null,         -- schemas/case_closing.py has the list
    note          text not null,
    author        text collate "C" not null,         -- a token's subject
    request_hash  bytea not null,
    four_eyes     boolean not null,                  -- whether another person than the author has to approve
    state         text collate "C" not null check (state in ('proposed', 'rejected', 'closed', 'reopened')),
    proposed_at   timestamptz not null default clock_timestamp(),
    decided_by    text collate "C",
    decided_at    timestamptz,
    decision_note text,
    reopened_by   text collate "C",
    reopened_at   timestamptz,
    reopen_note   text,
    constraint case_closing_four_eyes check (not four_eyes or state in ('proposed', 'rejected') or decided_by <> author),
    constraint case_closing_decided check ((state = 'proposed') = (decided_by is null)),
    constraint case_closing_reopened check ((state = 'reopened') = (reopened_by is not null))
);
create unique index case_closing_live on case_closing (case_id) where state in ('proposed', 'closed');
create index case_closing_of_case on case_closing (case_id, proposed_at);

create function case_closing_keep_content() returns trigger language plpgsql as $$
begin
    if tg_op <> 'UPDATE' or (new.id, new.case_id, new.reason, new.note, new.author, new.request_hash, new.four_eyes)
        is distinct from (old.id, old.case_id, old.reason, old.note, old.author, old.request_hash, old.four_eyes) then
        raise exception 'what was proposed never changes: % on case_closing is refused', tg_op using errcode = 'LE001';
    end if;
    return new;
end $$;
create trigger case_closing_kept before update or delete on case_closing
    for each row execute function case_closing_keep_content();
create trigger case_closing_whole before truncate on case_closing
    for each statement execute function audit_refuse_change();

-- One person closes what comes up again by itself if it was wrong, or what was decided elsewhere by then: a fact that goes
-- on being told, an attempt or payout that has come to its end, a balance that is not old any more, a reversal that anybody
-- may propose again. All else, kinds that nobody has thought of yet among it, is a word about money: two persons.
create function case_needs_two(p_kind text) returns boolean language sql immutable as $$
    select p_kind not in ('undecided_fact', 'attempt_review', 'aged_payout', 'aged_balance', 'repair_reversal')
$$;

-- Why a case cannot be closed yet: null, or the word of what opened it and still stands. With it closed, nobody would look.
create function case_cause(p_case repair_case, p_horizon_days integer) returns text language plpgsql stable
security definer set search_path = public, pg_temp as $$
begin
    if p_case.kind = 'risk_review' then
        return 'review_waits';
    end if;
    if p_case.kind = 'attempt_review' and exists (
        select from attempt_dispatch d join processor_attempt a on a.intent_id = d.intent_id and a.attempt = d.attempt
        where d.operation_id = p_case.reference
          and a.status in ('created', 'pending', 'unknown', 'requires_action', 'manual_review')) then
        return 'attempt_open';
    end if;
    if exists (select from payout p where p.id = p_case.reference and p.state = 'pending')
       and not exists (select from repair_case o
                       where o.reference = p_case.reference and o.id <> p_case.id and o.state <> 'resolved') then
        return 'payout_pending';
    end if;
    -- As invariant aged: what is left of a balance after all that came within the horizon is what is older.
    if exists (
        select from account_total b
        where (b.account_id = p_case.reference or split_part(b.account_id, ':', 2) = p_case.processor)
          and b.account_id ~ '^(recon_suspense|rounding|payout_in_transit):'
          and abs(b.balance) > (select coalesce(sum(greatest(sign(b.balance) * (e.debit - e.credit), 0)), 0)
                                from ledger_entry e
                                where e.account_id = b.account_id
                                  and e.effective_at >= now() - make_interval(days => p_horizon_days))
          and not exists (select from repair_case o
                          where o.id <> p_case.id and o.state <> 'resolved'
                            and o.reference = b.account_id)) then
        return 'money_waits';
    end if;
    return null;
end $$;

-- The case is resolved, and what reconciliation shows of it with it; the one moment tells a reopening what to open again.
create function case_closing_take_effect(p_closing case_closing, p_by text) returns void language plpgsql
security definer set search_path = public, pg_temp as $$
declare
    now_at timestamptz := clock_timestamp();
begin
    update case_closing set state = 'closed', decided_by = p_by, decided_at = now_at where id = p_closing.id;
    update repair_case
    set state = 'resolved', resolved_at = now_at, note = p_closing.reason || ': ' || p_closing.note,
        resolved_by = case when p_closing.author = p_by then p_by else p_closing.author || ', ' || p_by end
    where id = p_closing.case_id;
    update settlement_discrepancy d set state = 'resolved', resolved_at = now_at
    from repair_case c
    where c.id = p_closing.case_id and c.kind = 'settlement_difference' and d.reference = c.reference
      and d.state = 'open' and d.case_id is not null;
    perform audit_append(p_by, 'case.close', p_closing.case_id, 'done', jsonb_build_object('closing', p_closing.id,
                         'reason', p_closing.reason, 'note', p_closing.note, 'author', p_closing.author));
end $$;

-- Each of the following answers with a word, as the functions of repairs do; what was refused, its caller audits.
create function case_close(p_id text, p_case text, p_reason text, p_note text, p_author text, p_hash bytea,
                           p_horizon_days integer)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    found_case repair_case;
    known case_closing;
    cause text;
begin
    select * into found_case from repair_case where id = p_case for update;
    if not found then
        return 'not_found';
    end if;
    select * into known from case_closing where id = p_id;
    if found then
        return case when known.request_hash = p_hash then 'known' else 'key_reused' end;
    end if;
    if found_case.state <> 'open' then
        return 'case_' || found_case.state;
    end if;
    cause := case_cause(found_case, p_horizon_days);
    if cause is not null then
        return cause;
    end if;
    insert into case_closing (id, case_id, reason, note, author, request_hash, four_eyes, state)
    values (p_id, p_case, p_reason, p_note, p_author, p_hash, case_needs_two(found_case.kind), 'proposed')
    returning * into known;
    if known.four_eyes then
        update repair_case set state = 'proposed' where id = p_case;
        perform audit_append(p_author, 'case.propose_closing', p_case, 'done',
                             jsonb_build_object('closing', p_id, 'reason', p_reason, 'note', p_note));
    else
        perform case_closing_take_effect(known, p_author);
    end if;
    return 'proposed';
end $$;

create function case_close_approve(p_id text, p_case text, p_actor text, p_horizon_days integer)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    found_case repair_case;
    closing case_closing;
    cause text;
begin
    select * into found_case from repair_case where id = p_case for update;
    select * into closing from case_closing where id = p_id and case_id = p_case;
    if not found then
        return 'not_found';
    end if;
    if closing.state in ('closed', 'reopened') and closing.decided_by = p_actor then
        return 'known';
    end if;
    if closing.author = p_actor then
        return 'four_eyes_required';
    end if;
    if closing.state <> 'proposed' then
        return 'closing_' || closing.state;
    end if;
    cause := case_cause(found_case, p_horizon_days);  -- it may have come up since the proposal
    if cause is not null then
        return cause;
    end if;
    perform case_closing_take_effect(closing, p_actor);
    return 'closed';
end $$;

create function case_close_reject(p_id text, p_case text, p_actor text, p_note text)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    closing case_closing;
begin
    perform from repair_case where id = p_case for update;
    select * into closing from case_closing where id = p_id and case_id = p_case;
    if not found then
        return 'not_found';
    end if;
    if closing.state = 'rejected' and closing.decided_by = p_actor then
        return 'known';
    end if;
    if closing.state <> 'proposed' then
        return 'closing_' || closing.state;
    end if;
    update case_closing set state = 'rejected', decided_by = p_actor, decided_at = clock_timestamp(), decision_note = p_note
    where id = p_id;
    update repair_case set state = 'open' where id = p_case;
    perform audit_append(p_actor, 'case.reject_closing', p_case, 'done', jsonb_build_object('closing', p_id, 'note', p_note));
    return 'rejected';
end $$;

-- The way back is one person's: it only makes somebody look again. The case keeps the age that it had.
create function case_reopen(p_case text, p_actor text, p_note text)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    found_case repair_case;
    closing case_closing;
begin
    select * into found_case from repair_case where id = p_case for update;
    if not found then
        return 'not_found';
    end if;
    select * into closing from case_closing where case_id = p_case and state <> 'rejected' order by proposed_at desc limit 1;
    if found_case.state = 'open' and closing.state = 'reopened' and (closing.reopened_by, closing.reopen_note) = (p_actor, p_note) then
        return 'known';
    end if;
    if found_case.state <> 'resolved' then
        return 'case_' || found_case.state;
    end if;
    if closing.state is distinct from 'closed' then
        return 'resolved_otherwise';
    end if;
    if exists (select from repair_case o where (o.kind, o.reference) = (found_case.kind, found_case.reference)
               and o.state <> 'resolved') then
        return 'came_up_anew';
    end if;
    update case_closing set state = 'reopened', reopened_by = p_actor, reopened_at = clock_timestamp(), reopen_note = p_note
    where id = closing.id;
    update repair_case set state = 'open', resolved_at = null, resolved_by = null, note = 'reopened: ' || p_note
    where id = p_case;
    update settlement_discrepancy set state = 'open', resolved_at = null
    where state = 'resolved' and reference = found_case.reference and resolved_at = closing.decided_at;
    perform audit_append(p_actor, 'case.reopen', p_case, 'done', jsonb_build_object('closing', closing.id, 'note', p_note));
    return 'reopened';
end $$;

revoke all on function case_cause, case_closing_take_effect, case_close, case_close_approve, case_close_reject, case_reopen
    from public;
grant execute on function case_close, case_close_approve, case_close_reject, case_reopen to millrace_ingress;
grant select on case_closing to millrace_operator, millrace_ingress, millrace_reader;
