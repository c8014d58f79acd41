-- Commands that could not be carried out and wait for a decision, longest first. Served by dead_letter_open.
select d.topic, d.partition, d."offset", d.aggregate_key, d.merchant_id, d.request_id, d.reason, d.parked_at as at,
       p.aggregate_key is not null as aggregate_refuses
from dead_letter d left join parked_aggregate p on p.aggregate_key = d.aggregate_key
where d.state = 'open' order by d.parked_at limit %(limit)s
