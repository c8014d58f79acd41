-- What reconciliation still misses of these attempts. Served by settlement_discrepancy_of.
select d.processor, d.subject, d.class, d.reference, d.amount, d.currency, d.detail, d.case_id, d.first_seen
from settlement_discrepancy d where d.matched = any(%(references)s::text[]) and d.state = 'open'
order by d.first_seen limit %(limit)s
