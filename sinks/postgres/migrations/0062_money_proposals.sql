-- What a person moves by hand on a merchant's account (an exchange, a reserve, the bank's word on a payout): proposed by one
-- person, approved by another, carried out by the account's owner, which reads the approval in its own commit.
-- Decided by these functions alone, each with its row in the audit log, as repairs are.

create table money_proposal (
    id            text collate "C" primary key,      -- derived from author, operation, object and idempotency key
    operation     text collate "C" not null
                  check (operation in ('convert_currency', 'hold_reserve', 'release_reserve', 'record_payout_outcome')),
    object        text collate "C" not null,         -- a merchant or a payout
    payload       jsonb not null,                    -- as it will be carried out
    author        text collate "C" not null,         -- a token's subject
    request_hash  bytea not null,
    state         text not null default 'proposed' check (state in ('proposed', 'approved', 'rejected', 'done', 'refused')),
    proposed_at   timestamptz not null default clock_timestamp(),
    decided_by    text collate "C",
    decided_at    timestamptz,
    decision_note text,
    event_id      text collate "C",                  -- of what was done
    refusal       text collate "C",
    settled_at    timestamptz,
    constraint money_four_eyes check (state in ('proposed', 'rejected') or decided_by <> author),
    constraint money_decided check ((state = 'proposed') = (decided_by is null) and (state = 'done') = (event_id is not null))
);
create index money_proposal_newest on money_proposal (proposed_at, id);
create index money_proposal_unfinished on money_proposal (decided_at) where state = 'approved';

create function money_keep_content() returns trigger language plpgsql as $$
begin
    if tg_op <> 'UPDATE' or (new.id, new.operation, new.object, new.payload, new.author, new.request_hash)
        is distinct from (old.id, old.operation, old.object, old.payload, old.author, old.request_hash) then
        raise exception 'what was proposed never changes: % on money_proposal is refused', tg_op using errcode = 'LE001';
    end if;
    return new;
end $$;
create trigger money_proposal_kept before update or delete on money_proposal
    for each row execute function money_keep_content();
create trigger money_proposal_whole before truncate on money_proposal
    for each statement execute function audit_refuse_change();

create function money_propose(p_id text, p_operation text, p_object text, p_payload jsonb, p_author text, p_hash bytea)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    known money_proposal;
begin
    insert into money_proposal (id, operation, object, payload, author, request_hash)
    values (p_id, p_operation, p_object, p_payload, p_author, p_hash) on conflict (id) do nothing;
    if not found then
        select * into known from money_proposal where id = p_id;
        return case when known.request_hash = p_hash then 'known' else 'key_reused' end;
    end if;
    perform audit_append(p_author, 'money.propose', p_id, 'done',
                         jsonb_build_object('operation', p_operation, 'object', p_object, 'payload', p_payload));
    return 'proposed';
end $$;

create function money_approve(p_id text, p_actor text)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    proposal money_proposal;
begin
    select * into proposal from money_proposal where id = p_id for update;
    if not found then
        return 'not_found';
    end if;
    if proposal.author = p_actor then
        return 'four_eyes_required';
    end if;
    if proposal.state in ('approved', 'done', 'refused') and proposal.decided_by = p_actor then
        return 'known';
    end if;
    if proposal.state <> 'proposed' then
        return 'proposal_' || proposal.state;
    end if;
    update money_proposal set state = 'approved', decided_by = p_actor, decided_at = clock_timestamp() where id = p_id;
    perform audit_append(p_actor, 'money.approve', p_id, 'done', jsonb_build_object('author', proposal.author,
                         'operation', proposal.operation, 'object', proposal.object, 'payload', proposal.payload));
    return 'approved';
end $$;

create function money_reject(p_id text, p_actor text, p_note text)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    proposal money_proposal;
begin
    select * into proposal from money_proposal where id = p_id for update;
    if not found then
        return 'not_found';
    end if;
    if proposal.state = 'rejected' and proposal.decided_by = p_actor then
        return 'known';
    end if;
    if proposal.state <> 'proposed' then
        return 'proposal_' || proposal.state;
    end if;
    update money_proposal set state = 'rejected', decided_by = p_actor, decided_at = clock_timestamp(),
                              decision_note = p_note where id = p_id;
    perform audit_append(p_actor, 'money.reject', p_id, 'done', jsonb_build_object('note', p_note));
    return 'rejected';
end $$;

-- What the owner decided, taken from its own stored result; nothing that the caller says counts.
create function money_settle(p_id text)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    proposal money_proposal;
    decided idempotency;
begin
    select * into proposal from money_proposal where id = p_id for update;
    if not found then
        return 'not_found';
    end if;
    if proposal.state <> 'approved' then
        return proposal.state;
    end if;
    select * into decided from idempotency where merchant_id = 'operator:approved' and key = p_id;
    if not found then
        return 'approved';
    end if;
    update money_proposal
    set state = case decided.status when 'committed' then 'done' else 'refused' end, event_id = decided.event_id,
        refusal = case decided.status when 'refused' then convert_from(decided.response, 'UTF8')::jsonb ->> 'code' end,
        settled_at = clock_timestamp()
    where id = p_id;
    perform audit_append('operator:approved', 'money.' || proposal.operation, p_id,
                         case decided.status when 'committed' then 'done' else 'refused' end,
                         jsonb_build_object('event_id', decided.event_id));
    return case decided.status when 'committed' then 'done' else 'refused' end;
end $$;

revoke all on function money_propose, money_approve, money_reject, money_settle from public;
grant execute on function money_propose, money_approve, money_reject, money_settle to millrace_ingress;
grant execute on function money_settle to millrace_worker, millrace_operator;
grant select on money_proposal to millrace_ingress, millrace_operator, millrace_worker, millrace_owner, millrace_reader, millrace_console;
