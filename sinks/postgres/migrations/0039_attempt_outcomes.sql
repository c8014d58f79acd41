-- Attempts past their budget of doubt: a person has the processor asked again, or two take over an outcome that they have
-- evidence for. The outcome is a fact like any other, decided by the owner of the payment; nothing here writes an attempt.

-- Once a person has it, an attempt is asked for and never sent again, whoever leases it: what two persons then say of it
-- cannot be overtaken by a charge of ours.
alter table attempt_dispatch add column only_asked boolean not null default false;

create table attempt_outcome_proposal (
    id            text collate "C" primary key,      -- derived from case, author and idempotency key
    case_id       text collate "C" not null references repair_case,
    operation_id  text collate "C" not null,
    intent_id     text collate "C" not null,
    attempt       integer not null,
    processor     text collate "C" not null,
    fact          jsonb not null,                    -- status, amount, currency, provider_ref, error_code
    note          text not null,                     -- the evidence
    author        text collate "C" not null,         -- a token's subject
    request_hash  bytea not null,
    state         text collate "C" not null default 'proposed'
                  check (state in ('proposed', 'approved', 'rejected', 'recorded', 'refused')),
    proposed_at   timestamptz not null default clock_timestamp(),
    decided_by    text collate "C",
    decided_at    timestamptz,
    decision_note text,
    refusal       text collate "C",
    recorded_at   timestamptz,
    constraint attempt_outcome_four_eyes check (state in ('proposed', 'rejected') or decided_by <> author),
    constraint attempt_outcome_decided check ((state = 'proposed') = (decided_by is null))
);
create unique index attempt_outcome_live on attempt_outcome_proposal (case_id) where state in ('proposed', 'approved');
create index attempt_outcome_unfinished on attempt_outcome_proposal (decided_at) where state = 'approved';
create index attempt_outcome_of_case on attempt_outcome_proposal (case_id, proposed_at);

create function attempt_outcome_keep_content() returns trigger language plpgsql as $$
begin
    if tg_op <> 'UPDATE' or (new.id, new.case_id, new.operation_id, new.fact, new.note, new.author, new.request_hash)
        is distinct from (old.id, old.case_id, old.operation_id, old.fact, old.note, old.author, old.request_hash) then
        raise exception 'what was proposed never changes: % on attempt_outcome_proposal is refused', tg_op
            using errcode = 'LE001';
    end if;
    return new;
end $$;
create trigger attempt_outcome_kept before update or delete on attempt_outcome_proposal
    for each row execute function attempt_outcome_keep_content();
create trigger attempt_outcome_whole before truncate on attempt_outcome_proposal
    for each statement execute function audit_refuse_change();

-- All answer with a word, as the functions of repairs do. Asked now: what still goes by its schedule is only due earlier.
create function attempt_ask(p_operation_id text, p_actor text, p_note text)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    dispatch attempt_dispatch;
begin
    select * into dispatch from attempt_dispatch where operation_id = p_operation_id for update;
    if not found then
        return 'not_found';
    end if;
    if dispatch.status not in ('waiting', 'review') then
        return 'attempt_' || dispatch.status;
    end if;
    update attempt_dispatch
    set status = 'waiting', next_at = now(), updated_at = now(), in_doubt = in_doubt or dispatch.status = 'review',
        only_asked = only_asked or dispatch.status = 'review'
    where operation_id = p_operation_id;
    perform audit_append(p_actor, 'attempt.ask', p_operation_id, 'done', jsonb_build_object('note', p_note));
    return 'asked';
end $$;

create function attempt_outcome_propose(p_id text, p_case text, p_fact jsonb, p_note text, p_author text, p_hash bytea)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    found_case repair_case;
    known attempt_outcome_proposal;
    dispatch attempt_dispatch;
    success text;
begin
    select * into found_case from repair_case where id = p_case for update;
    if not found then
        return 'not_found';
    end if;
    select * into known from attempt_outcome_proposal where id = p_id;
    if found then
        return case when known.request_hash = p_hash then 'known' else 'key_reused' end;
    end if;
    if found_case.state <> 'open' then
        return 'case_' || found_case.state;
    end if;
    select * into dispatch from attempt_dispatch where operation_id = found_case.reference;
    if found_case.kind <> 'attempt_review' or not found then
        return 'of_no_attempt';
    end if;
    if not (dispatch.status = 'review' or (dispatch.only_asked and dispatch.status <> 'done')) then
        return 'attempt_' || dispatch.status;
    end if;
    success := case dispatch.kind when 'authorize' then 'authorized' when 'increment' then 'authorized'
        when 'purchase' then 'captured' when 'capture' then 'captured' when 'void' then 'voided'
        when 'refund' then 'refunded' when 'evidence' then 'submitted' end;
    if p_fact ->> 'status' not in (success, 'declined', 'failed') then
        return 'other_status';
    end if;
    if p_fact ->> 'status' = success and (p_fact ->> 'amount', p_fact ->> 'currency')
       is distinct from (dispatch.amount::text, dispatch.currency) then
        return 'other_amount';
    end if;
    insert into attempt_outcome_proposal (id, case_id, operation_id, intent_id, attempt, processor, fact, note, author, request_hash)
    values (p_id, p_case, dispatch.operation_id, dispatch.intent_id, dispatch.attempt, dispatch.processor, p_fact, p_note,
            p_author, p_hash);
    update repair_case set state = 'proposed' where id = p_case;
    perform audit_append(p_author, 'attempt.propose_outcome', p_id, 'done',
                         jsonb_build_object('case', p_case, 'operation', dispatch.operation_id, 'fact', p_fact, 'note', p_note));
    return 'proposed';
end $$;

create function attempt_outcome_approve(p_id text, p_actor text)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    proposal attempt_outcome_proposal;
begin
    select * into proposal from attempt_outcome_proposal where id = p_id for update;
    if not found then
        return 'not_found';
    end if;
    if proposal.author = p_actor then
        return 'four_eyes_required';
    end if;
    if proposal.state in ('approved', 'recorded', 'refused') and proposal.decided_by = p_actor then
        return 'known';
    end if;
    if proposal.state <> 'proposed' then
        return 'outcome_' || proposal.state;
    end if;
    update attempt_outcome_proposal set state = 'approved', decided_by = p_actor, decided_at = clock_timestamp() where id = p_id;
    perform audit_append(p_actor, 'attempt.approve_outcome', p_id, 'done', jsonb_build_object('author', proposal.author,
                         'operation', proposal.operation_id, 'fact', proposal.fact));
    return 'approved';
end $$;

create function attempt_outcome_reject(p_id text, p_actor text, p_note text)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    proposal attempt_outcome_proposal;
begin
    select * into proposal from attempt_outcome_proposal where id = p_id for update;
    if not found then
        return 'not_found';
    end if;
    if proposal.state = 'rejected' and proposal.decided_by = p_actor then
        return 'known';
    end if;
    if proposal.state <> 'proposed' then
        return 'outcome_' || proposal.state;
    end if;
    update attempt_outcome_proposal set state = 'rejected', decided_by = p_actor, decided_at = clock_timestamp(),
                                        decision_note = p_note where id = p_id;
    update repair_case set state = 'open' where id = proposal.case_id and state = 'proposed';
    perform audit_append(p_actor, 'attempt.reject_outcome', p_id, 'done', jsonb_build_object('note', p_note));
    return 'rejected';
end $$;

-- What the owner decided, from its own stored result and the attempt as it is; nothing that the caller says counts.
create function attempt_outcome_settle(p_id text)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    proposal attempt_outcome_proposal;
    decided text;
    answer jsonb;
    became text;
    now_at timestamptz;
begin
    select * into proposal from attempt_outcome_proposal where id = p_id for update;
    if not found then
        return 'not_found';
    end if;
    if proposal.state <> 'approved' then
        return proposal.state;
    end if;
    select status, convert_from(response, 'UTF8')::jsonb into decided, answer
    from idempotency where merchant_id = 'processor:' || proposal.processor and key = proposal.operation_id || ':' || proposal.id;
    if not found then
        return 'approved';
    end if;
    now_at := clock_timestamp();
    select status into became from processor_attempt where intent_id = proposal.intent_id and attempt = proposal.attempt;
    -- Refused as stale, because another door told the same in between, is what was wanted too.
    if became is distinct from proposal.fact ->> 'status' then
        update attempt_outcome_proposal set state = 'refused', refusal = coalesce(answer ->> 'code', 'not_followed') where id = p_id;
        update repair_case set state = 'open' where id = proposal.case_id and state = 'proposed';
        perform audit_append('processor:' || proposal.processor, 'attempt.record_outcome', p_id, 'refused',
                             jsonb_build_object('attempt', became));
        return 'refused';
    end if;
    update attempt_outcome_proposal set state = 'recorded', recorded_at = now_at where id = p_id;
    update repair_case set state = 'resolved', resolved_at = now_at, resolved_by = proposal.author || ', ' || proposal.decided_by,
                           note = 'the outcome is ' || became || ': ' || proposal.note
    where id = proposal.case_id and state = 'proposed';
    perform audit_append('processor:' || proposal.processor, 'attempt.record_outcome', p_id, 'done',
                         jsonb_build_object('attempt', became));
    return 'recorded';
end $$;

revoke all on function attempt_ask, attempt_outcome_propose, attempt_outcome_approve, attempt_outcome_reject,
    attempt_outcome_settle from public;
grant execute on function attempt_ask, attempt_outcome_propose, attempt_outcome_approve, attempt_outcome_reject,
    attempt_outcome_settle to millrace_ingress;
grant execute on function attempt_outcome_settle to millrace_worker, millrace_operator;
grant select on attempt_outcome_proposal to millrace_operator, millrace_ingress, millrace_reader, millrace_worker;
