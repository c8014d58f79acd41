-- Open cases by kind. Served by repair_case_open, which holds unresolved ones only.
select x.kind, count(*) as n, count(*) filter (where x.state = 'proposed') as proposed, min(x.opened_at) as oldest
from (select c.kind, c.state, c.opened_at from repair_case c where c.state <> 'resolved' limit %(counted)s) x
group by x.kind order by n desc, x.kind
