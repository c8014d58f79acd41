-- A parked command is retried or discarded by a named person through this function alone, from the shell or the console:
-- the decision, the release of its aggregate and the row in the audit log are one transaction.

-- Decided to be retried, and not known to be in its topic again: it waits with the open ones.
create index dead_letter_unsent on dead_letter (parked_at) where state = 'retried' and republished_at is null;

-- word: what was decided ('retried', 'discarded'), 'not_found', or 'is_<state>' of what somebody decided before. A retry
-- that did not reach Kafka may be asked for again.
create function parked_decide(p_topic text, p_partition integer, p_offset bigint, p_state text, p_actor text, p_note text,
                              out word text, out aggregate_key text, out record bytea)
language plpgsql security definer set search_path = public, pg_temp as $$
declare
    letter dead_letter;
begin
    select * into letter from dead_letter d
    where d.topic = p_topic and d.partition = p_partition and d."offset" = p_offset for update;
    if not found then
        word := 'not_found';
        return;
    end if;
    word := 'is_' || letter.state;
    if p_state not in ('retried', 'discarded') then
        raise exception 'no decision about a parked command: %', p_state;
    elsif letter.state = 'open' then
        update dead_letter d
        set state = p_state, resolved_at = clock_timestamp(), resolved_by = p_actor, resolution_note = p_note
        where d.topic = p_topic and d.partition = p_partition and d."offset" = p_offset;
        -- It works again, unless another open record of it still waits.
        delete from parked_aggregate p
        where p.aggregate_key = letter.aggregate_key and not exists (
            select 1 from dead_letter d where d.aggregate_key = p.aggregate_key and d.state = 'open');
    elsif letter.state <> 'retried' or p_state <> 'retried' or letter.republished_at is not null then
        return;
    end if;
    word := p_state;
    aggregate_key := letter.aggregate_key;
    record := letter.record;
    perform audit_append(p_actor, case p_state when 'retried' then 'parked.retry' else 'parked.discard' end,
                         p_topic || '/' || p_partition || '/' || p_offset, 'done', jsonb_build_object('note', p_note));
end $$;

-- After Kafka has the command again.
create function parked_republished(p_topic text, p_partition integer, p_offset bigint)
returns void language sql security definer set search_path = public, pg_temp as $$
    update dead_letter set republished_at = clock_timestamp()
    where topic = p_topic and partition = p_partition and "offset" = p_offset and state = 'retried'
$$;

revoke all on function parked_decide, parked_republished from public;
grant execute on function parked_decide, parked_republished to millrace_ingress, millrace_operator;
