-- Money that a processor took after it had refused: two persons may state it of a case of contradiction, too, because the
-- identity of the processor's own word belongs to a refusal of the owner's for ever.

-- A purchase that took money beside another charge is marked as not final, and is on its way back: it is no charge that
-- the payment lives by. Every other purchase is final, so no row leaves the index now.
drop index processor_attempt_one_charge;
create unique index processor_attempt_one_charge on processor_attempt (intent_id)
    where live_charge and (final or kind <> 'purchase');

create or replace function attempt_outcome_propose(p_id text, p_case text, p_fact jsonb, p_note text, p_author text, p_hash bytea)
returns text language plpgsql security definer set search_path = public, pg_temp as $$
declare
    found_case repair_case;
    known attempt_outcome_proposal;
    of_attempt processor_attempt;
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
    if found_case.kind = 'attempt_review' and found then
        if not (dispatch.status = 'review' or (dispatch.only_asked and dispatch.status <> 'done')) then
            return 'attempt_' || dispatch.status;
        end if;
    elsif found_case.kind <> 'contradicting_fact' then
        return 'of_no_attempt';
    end if;
    select * into of_attempt from processor_attempt
    where intent_id = coalesce(dispatch.intent_id, found_case.evidence ->> 'payment_intent')
      and operation_id = found_case.reference;
    if not found then
        return 'of_no_attempt';
    end if;
    success := case of_attempt.kind when 'authorize' then 'authorized' when 'increment' then 'authorized'
        when 'purchase' then 'captured' when 'capture' then 'captured' when 'void' then 'voided'
        when 'refund' then 'refunded' when 'evidence' then 'submitted' end;
    -- Of an attempt that has ended only money is left to be said: its refusal is known.
    if p_fact ->> 'status' <> success
       and (found_case.kind = 'contradicting_fact' or p_fact ->> 'status' not in ('declined', 'failed')) then
        return 'other_status';
    end if;
    if p_fact ->> 'status' = success and (p_fact ->> 'amount', p_fact ->> 'currency')
       is distinct from (of_attempt.amount::text, of_attempt.currency) then
        return 'other_amount';
    end if;
    -- Money is captured, released and given back by the processor's name of it.
    if p_fact ->> 'status' = success and of_attempt.kind in ('authorize', 'purchase', 'capture')
       and of_attempt.provider_ref is null and p_fact ->> 'provider_ref' is null then
        return 'no_reference';
    end if;
    insert into attempt_outcome_proposal (id, case_id, operation_id, intent_id, attempt, processor, fact, note, author, request_hash)
    values (p_id, p_case, of_attempt.operation_id, of_attempt.intent_id, of_attempt.attempt, of_attempt.processor, p_fact, p_note,
            p_author, p_hash);
    update repair_case set state = 'proposed' where id = p_case;
    perform audit_append(p_author, 'attempt.propose_outcome', p_id, 'done',
                         jsonb_build_object('case', p_case, 'operation', of_attempt.operation_id, 'fact', p_fact, 'note', p_note));
    return 'proposed';
end $$;
