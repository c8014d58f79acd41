-- A committed answer may be stored as one byte: the number of the frozen rendering that makes it again from its event, which
-- stands in the outbox in the same transaction (schemas/stored_answer.py). JSON begins with '{', so no byte below 32 is one.
-- A refusal is JSON always. No row of the outbox is ever deleted or changed: no role may.
comment on column idempotency.response is 'the answer as JSON, or one byte below 32: how it is rendered from the event of event_id';

-- Where the event of such an answer lies within its partition: the end of its id. Null for an answer that is stored as it was told.
create function answer_event_seq(response bytea, event_id text) returns bigint
language sql immutable parallel safe
return case when response < '\x20'::bytea then ('x' || right(event_id, 12))::bit(48)::bigint end;

-- Readable forms for people, as before; what only our code renders is null.
create or replace view idempotency_readable as
    select merchant_id, key, operation, status, request_id, aggregate_key, event_id, created_at,
           encode(request_hash, 'hex') as request_hash,
           case when answer_event_seq(response, event_id) is null then convert_from(response, 'UTF8')::jsonb end as response
    from idempotency;

-- What the owner decided, from its own stored result and the attempt as it is; as before, but for answers that are no JSON.
create or replace function attempt_outcome_settle(p_id text)
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
    select status, case status when 'refused' then convert_from(response, 'UTF8')::jsonb end into decided, answer
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
