-- Open discrepancies, oldest first, of one class when it is asked for. Served by settlement_discrepancy_open.
select d.processor, d.subject, d.class, d.reference, d.amount, d.currency, d.line_id, d.matched, d.detail, d.case_id, d.first_seen
from settlement_discrepancy d
where d.state = 'open' and (%(class)s::text is null or d.class = %(class)s::text)
order by d.first_seen limit %(limit)s
