-- id: parked
-- title: Every parked aggregate has its parked record, open for an operator
-- severity: major
-- owner: owner
-- source: postgres
select p.aggregate_key, p.topic, p.partition, p."offset", d.state
from parked_aggregate p
left join dead_letter d on (d.topic, d.partition, d."offset") = (p.topic, p.partition, p."offset")
where d.state is distinct from 'open'
