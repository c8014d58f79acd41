-- Repairs of the ledger by two persons, and the audit log that nobody can change unseen. Both are written through the
-- functions below only: no role of a running process may insert, update or delete a row of these tables itself.

create table audit_log (
    seq       bigint primary key,                    -- 1, 2, 3 ... without gap
    at        timestamptz not null,
    actor     text collate "C" not null,             -- the token's subject, or shell:<login name>
    db_role   text collate "C" not null,             -- who was logged in at the database, whatever actor was said
    action    text collate "C" not null,             -- case.read, repair.approve, parked.retry ...
    object    text collate "C" not null,
    outcome   text collate "C" not null check (outcome in ('begun', 'done', 'refused', 'failed')),
    details   jsonb not null default '{}',
    prev_hash bytea not null,
    hash      bytea not null
);
-- The end of the chain: without it, rows cut off at the end would leave a sound chain.
create table audit_head (
    is_only boolean primary key default true check (is_only),
    seq     bigint not null,
    hash    bytea not null
);
insert into audit_head (seq, hash) values (0, decode(repeat('00', 32), 'hex'));

create function audit_refuse_change() returns trigger language plpgsql as $$
begin
    raise exception 'the audit log is append-only: % on % is refused', tg_op, tg_table_name using errcode = 'LE001';
end $$;
create trigger audit_log_immutable before update or delete or truncate on audit_log
    for each statement execute function audit_refuse_change();
create trigger audit_head_kept before delete or truncate on audit_head
    for each statement execute function audit_refuse_change();

-- SHA-256 of the hash before and of every field as <bytes>:<text>, so that no two rows have the same text.
create function audit_hash(prev_hash bytea, row_seq bigint, row_at timestamptz, variadic fields text[])
returns bytea language sql immutable as $$
    select sha256(prev_hash || convert_to(string_agg(octet_length(f.value) || ':' || f.value || ',', '' order by f.n), 'UTF8'))
    from unnest(array[row_seq::text, (extract(epoch from row_at) * 1000000)::bigint::text] || fields)
         with ordinality as f (value, n)
$$;

-- One at a time: the head's row lock is held until the appending transaction ends.
create function audit_append(p_actor text, p_action text, p_object text, p_outcome text, p_details jsonb)
returns bigint language plpgsql security definer set search_path = public, pg_temp as $$
declare
    head audit_head;
    now_at timestamptz;
    fresh bytea;
begin
    select * into strict head from audit_head for update;
    now_at := clock_timestamp();
    fresh := audit_hash(head.hash, head.seq + 1, now_at, p_actor, session_user::text, p_action, p_object, p_outcome,
                        p_details::text);
    insert into audit_log values (head.seq + 1, now_at, p_actor, session_user, p_action, p_object, p_outcome, p_details,
                                  head.hash, fresh);
    update audit_head set seq = head.seq + 1, hash = fresh;
    return head.seq + 1;
end $$;

-- proposed -> approved (durable; from here on it will be posted) -> posted, or refused by the owner; or proposed -> rejected.
create table repair_proposal (
    id            text collate "C" primary key,      -- derived from case, author and idempotency key
    case_id       text collate "C" not null references repair_case,
    template      text collate "C" not null,
    entries       jsonb not null,                    -- balanced: the owner refuses what is not
    note          text not null,
    author        text collate "C" not null,         -- a token's subject
    request_hash  bytea not null,
    reverses      text collate "C" references repair_proposal,
    state         text collate "C" not null default 'proposed'
                  check (state in ('proposed', 'approved', 'rejected', 'posted', 'refused')),
    preview       jsonb not null,                    -- each touched account before and after; as it was at the approval
    proposed_at   timestamptz not null default clock_timestamp(),
    decided_by    text collate "C",
    decided_at    timestamptz,
    decision_note text,
    txn_id        bigint,                            -- in the ledger, reference repair:<id>
    refusal       text collate "C",
    posted_at     timestamptz,
    constraint repair_four_eyes check (state in ('proposed', 'rejected') or decided_by <> author),
    constraint repair_decided check ((state = 'proposed') = (decided_by is null) and (state = 'posted') = (txn_id is not null))
);
create unique index repair_proposal_live on repair_proposal (case_id) where state in ('proposed', 'approved');
create unique index repair_proposal_reversal on repair_proposal (reverses) where state in ('proposed', 'approved', 'posted');
create index repair_proposal_unfinished on repair_proposal (decided_at) where state = 'approved';
create index repair_proposal_of_case on repair_proposal (case_id, proposed_at);

create function repair_keep_content() returns trigger language plpgsql as $$
begin
    if tg_op <> 'UPDATE' or (new.id, new.case_id, new.template, new.entries, new.note, new.author, new.request_hash, new.reverses)
        is distinct from (old.id, old.case_id, old.template, old.entries, old.note, old.author, old.request_hash, old.reverses) then
        raise exception 'what was proposed never changes: % on repair_proposal is refused', tg_op using errcode = 'LE001';
    end if;
    return new;
end $$;
create trigger repair_proposal_kept before update or delete on repair_proposal
    for each row execute function repair_keep_content();
create trigger repair_proposal_whole before truncate on repair_proposal
    for each statement execute function audit_refuse_change();

-- Every account that the entries touch: its balance (debits minus credits) now, the change, and the balance after it.
create function repair_preview(p_entries jsonb) returns jsonb language sql stable
security definer set search_path = public, pg_temp as $$
    select jsonb_agg(jsonb_build_object('account_id', t.account_id, 'currency', t.currency, 'before', b.balance,
                                        'change', t.change, 'after', b.balance + t.change) order by t.account_id)
    from (select e ->> 'account_id' as account_id, e ->> 'currency' as currency,
                 sum((e ->> 'debit')::numeric - (e ->> 'credit')::numeric) as change
          from jsonb_array_elements(p_entries) e group by 1, 2) t
    cross join lateral (select coalesce(sum(debits - credits), 0) as balance
                        from account_balance where account_id = t.account_id) b
$$;

-- The mirror image of a posted transaction; null when there is none. The ingress reads no other part of the ledger.
create function repair_mirror(p_reference text) returns jsonb language sql stable
security definer set search_path = public, pg_temp as $$
    select jsonb_agg(jsonb_build_object('account_id', e.account_id, 'debit', e.credit, 'credit', e.debit,
                                        'currency', e.currency) order by e.line)
    from ledger_txn t join ledger_entry e using (txn_id) where t.reference = p_reference
$$;

-- Each of the following answers with a word: what became of it. Only what was done is audited here, with what it did, in
-- one transaction; who asks audits what was refused.
create function repair_propose(p_id text, p_case text, p_template text, p_entries jsonb, p_note text, p_author text,
                               p_hash bytea)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    found_case repair_case;
    known repair_proposal;
begin
    select * into found_case from repair_case where id = p_case for update;
    if not found then
        return 'not_found';
    end if;
    select * into known from repair_proposal where id = p_id;
    if found then
        return case when known.request_hash = p_hash then 'known' else 'key_reused' end;
    end if;
    if found_case.state <> 'open' then
        return 'case_' || found_case.state;
    end if;
    insert into repair_proposal (id, case_id, template, entries, note, author, request_hash, preview)
    values (p_id, p_case, p_template, p_entries, p_note, p_author, p_hash, repair_preview(p_entries));
    update repair_case set state = 'proposed' where id = p_case;
    perform audit_append(p_author, 'repair.propose', p_id, 'done',
                         jsonb_build_object('case', p_case, 'template', p_template, 'entries', p_entries, 'note', p_note));
    return 'proposed';
end $$;

-- The mirror image of what was posted, in a case of its own, for two persons again.
create function repair_reverse(p_id text, p_repair text, p_case text, p_note text, p_author text, p_hash bytea)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    original repair_proposal;
    known repair_proposal;
    mirrored jsonb;
    open_case text;
begin
    select * into original from repair_proposal where id = p_repair for update;
    if not found then
        return 'not_found';
    end if;
    select * into known from repair_proposal where id = p_id;
    if found then
        return case when known.request_hash = p_hash then 'known' else 'key_reused' end;
    end if;
    if original.state <> 'posted' then
        return 'repair_' || original.state;
    end if;
    if exists (select 1 from repair_proposal where reverses = p_repair and state in ('proposed', 'approved', 'posted')) then
        return 'repair_reversed';
    end if;
    select jsonb_agg(jsonb_build_object('account_id', e.value -> 'account_id', 'debit', e.value -> 'credit',
                                        'credit', e.value -> 'debit', 'currency', e.value -> 'currency') order by e.n)
    into mirrored from jsonb_array_elements(original.entries) with ordinality e (value, n);
    insert into repair_case (id, kind, reference, evidence)
    values (p_case, 'repair_reversal', p_repair, jsonb_build_object('case', original.case_id, 'txn_id', original.txn_id))
    on conflict (kind, reference) where state <> 'resolved' do nothing;
    select id into strict open_case from repair_case
    where kind = 'repair_reversal' and reference = p_repair and state <> 'resolved' for update;
    if exists (select 1 from repair_proposal where case_id = open_case and state in ('proposed', 'approved')) then
        return 'case_proposed';
    end if;
    insert into repair_proposal (id, case_id, template, entries, note, author, request_hash, reverses, preview)
    values (p_id, open_case, 'reversal', mirrored, p_note, p_author, p_hash, p_repair, repair_preview(mirrored));
    update repair_case set state = 'proposed' where id = open_case;
    perform audit_append(p_author, 'repair.reverse', p_id, 'done', jsonb_build_object('reverses', p_repair, 'note', p_note));
    return 'proposed';
end $$;

create function repair_approve(p_id text, p_actor text)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    proposal repair_proposal;
begin
    select * into proposal from repair_proposal where id = p_id for update;
    if not found then
        return 'not_found';
    end if;
    if proposal.author = p_actor then
        return 'four_eyes_required';
    end if;
    if proposal.state in ('approved', 'posted', 'refused') and proposal.decided_by = p_actor then
        return 'known';
    end if;
    if proposal.state <> 'proposed' then
        return 'repair_' || proposal.state;
    end if;
    update repair_proposal set state = 'approved', decided_by = p_actor, decided_at = clock_timestamp(),
                               preview = repair_preview(entries) where id = p_id;
    perform audit_append(p_actor, 'repair.approve', p_id, 'done', jsonb_build_object('author', proposal.author,
                         'case', proposal.case_id, 'entries', proposal.entries));
    return 'approved';
end $$;

create function repair_reject(p_id text, p_actor text, p_note text)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    proposal repair_proposal;
begin
    select * into proposal from repair_proposal where id = p_id for update;
    if not found then
        return 'not_found';
    end if;
    if proposal.state = 'rejected' and proposal.decided_by = p_actor then
        return 'known';
    end if;
    if proposal.state <> 'proposed' then
        return 'repair_' || proposal.state;
    end if;
    update repair_proposal set state = 'rejected', decided_by = p_actor, decided_at = clock_timestamp(),
                               decision_note = p_note where id = p_id;
    update repair_case set state = 'open' where id = proposal.case_id and state = 'proposed';
    perform audit_append(p_actor, 'repair.reject', p_id, 'done', jsonb_build_object('case', proposal.case_id, 'note', p_note));
    return 'rejected';
end $$;

-- What the owner decided, taken from its own stored result; nothing that the caller says counts.
create function repair_settle(p_id text)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    proposal repair_proposal;
    decided text;
    answer jsonb;
    posted bigint;
    now_at timestamptz;
    undone repair_proposal;
begin
    select * into proposal from repair_proposal where id = p_id for update;
    if not found then
        return 'not_found';
    end if;
    if proposal.state <> 'approved' then
        return proposal.state;
    end if;
    select status, convert_from(response, 'UTF8')::jsonb into decided, answer
    from idempotency where merchant_id = 'ledger:repair' and key = 'repair:' || p_id;
    if not found then
        return 'approved';
    end if;
    if decided = 'refused' then
        update repair_proposal set state = 'refused', refusal = coalesce(answer ->> 'code', 'refused') where id = p_id;
        update repair_case set state = 'open' where id = proposal.case_id and state = 'proposed';
        perform audit_append('ledger:repair', 'repair.post', p_id, 'refused', answer);
        return 'refused';
    end if;
    select txn_id into strict posted from ledger_txn where reference = 'repair:' || p_id;
    now_at := clock_timestamp();
    update repair_proposal set state = 'posted', txn_id = posted, posted_at = now_at where id = p_id;
    update repair_case
    set state = 'resolved', resolved_at = now_at, resolved_by = proposal.author || ', ' || proposal.decided_by,
        note = 'ledger transaction ' || posted || ', reference repair:' || p_id
    where id = proposal.case_id;
    -- What reconciliation shows of it is settled with the case, and the same moment tells a reversal what to open again.
    update settlement_discrepancy d set state = 'resolved', resolved_at = now_at
    from repair_case c
    where c.id = proposal.case_id and c.kind = 'settlement_difference' and d.reference = c.reference
      and d.state = 'open' and d.case_id is not null;
    if proposal.reverses is not null then
        -- It waits for a person again, unless it came up anew in the meantime.
        select * into undone from repair_proposal where id = proposal.reverses;
        update repair_case c
        set state = 'open', resolved_at = null, resolved_by = null, note = 'its repair was reversed by repair:' || p_id
        where c.id = undone.case_id and c.state = 'resolved'
          and not exists (select 1 from repair_case o
                          where (o.kind, o.reference) = (c.kind, c.reference) and o.state <> 'resolved');
        update settlement_discrepancy set state = 'open', resolved_at = null
        where state = 'resolved' and resolved_at = undone.posted_at;
    end if;
    perform audit_append('ledger:repair', 'repair.post', p_id, 'done', jsonb_build_object('txn_id', posted));
    return 'posted';
end $$;

revoke all on function audit_append, repair_preview, repair_mirror, repair_propose, repair_reverse, repair_approve, repair_reject,
    repair_settle from public;
grant execute on function audit_append, repair_preview, repair_mirror, repair_propose, repair_reverse, repair_approve, repair_reject,
    repair_settle to millrace_ingress;
grant execute on function audit_append, repair_preview, repair_settle to millrace_operator;
grant select on audit_log, audit_head to millrace_operator;
grant select on repair_proposal to millrace_operator, millrace_ingress, millrace_reader, millrace_owner;
