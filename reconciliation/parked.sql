-- Parked work, for the operator.

-- name: parked_page
-- Open records first come first; with every_state also the resolved ones. Primary key scan of a small table.
select d.topic, d.partition, d."offset", d.aggregate_key, d.merchant_id, d.request_id, d.reason, d.parked_at, d.state,
       d.resolved_at, d.resolved_by, d.resolution_note, d.republished_at, p.aggregate_key is not null as aggregate_refuses
from dead_letter d
left join parked_aggregate p on p.aggregate_key = d.aggregate_key
where %(every_state)s or d.state = 'open' or (d.state = 'retried' and d.republished_at is null)
order by d.parked_at, d.topic, d.partition, d."offset" limit %(limit)s;

-- name: parked_lock
-- First statement of a decision: two operators decide one after the other. Primary key.
select aggregate_key, state, record, republished_at from dead_letter
where topic = %(topic)s and partition = %(partition)s and "offset" = %(offset)s for update;

-- name: parked_resolve
-- `millrace parked`: an operator's decision on one parked command, once. Primary key.
update dead_letter
set state = %(state)s, resolved_at = clock_timestamp(), resolved_by = %(operator)s, resolution_note = %(note)s
where topic = %(topic)s and partition = %(partition)s and "offset" = %(offset)s and state = 'open' returning 1;

-- name: aggregate_release
-- The aggregate works again, unless another open record of it still waits.
delete from parked_aggregate p
where p.aggregate_key = %(aggregate_key)s and not exists (
    select 1 from dead_letter d where d.aggregate_key = p.aggregate_key and d.state = 'open'
);

-- name: parked_republished
-- `millrace parked retry`, after Kafka has the command again. Primary key.
update dead_letter set republished_at = clock_timestamp()
where topic = %(topic)s and partition = %(partition)s and "offset" = %(offset)s;
