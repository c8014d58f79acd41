-- What is known of the cards of payments that wait for an operator. Index repair_case_open.
select c.reference, c.evidence -> 'card' ->> 'network', c.evidence -> 'card' ->> 'country' from repair_case c
where c.kind = 'risk_review' and c.reference = any(%(ids)s) and c.state <> 'resolved'
