-- Commands that could not be carried out and wait for a decision, longest first; also those whose retry did not reach Kafka.
-- Served by dead_letter_open and dead_letter_unsent.
select d.topic, d.partition, d."offset", d.aggregate_key, d.merchant_id, d.request_id, d.reason, d.state, d.resolved_by,
       d.resolution_note, d.parked_at as at, p.aggregate_key is not null as aggregate_refuses
from dead_letter d left join parked_aggregate p on p.aggregate_key = d.aggregate_key
where d.state = 'open' or (d.state = 'retried' and d.republished_at is null) order by d.parked_at limit %(limit)s
