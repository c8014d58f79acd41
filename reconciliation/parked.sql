-- Parked work, for the operator.

-- name: parked_page
-- Open records first come first; with every_state also the resolved ones. Primary key scan of a small table.
select d.topic, d.partition, d."offset", d.aggregate_key, d.merchant_id, d.request_id, d.reason, d.parked_at, d.state,
       d.resolved_at, d.resolved_by, d.resolution_note, d.republished_at, p.aggregate_key is not null as aggregate_refuses
from dead_letter d
left join parked_aggregate p on p.aggregate_key = d.aggregate_key
where %(every_state)s or d.state = 'open' or (d.state = 'retried' and d.republished_at is null)
order by d.parked_at, d.topic, d.partition, d."offset" limit %(limit)s;

-- name: parked_decide
-- `millrace parked`: an operator's decision on one parked command, once, audited there. Primary key.
select word, aggregate_key, record
from parked_decide(%(topic)s, %(partition)s, %(offset)s, %(state)s, %(operator)s, %(note)s);

-- name: parked_republished
-- `millrace parked retry`, after Kafka has the command again. Primary key.
select parked_republished(%(topic)s, %(partition)s, %(offset)s);
