-- What persons closed without money. Served by case_closing_of_case.
select c.id, c.case_id, c.reason, c.note, c.author, c.state, c.proposed_at, c.decided_by, c.decided_at, c.decision_note,
       c.reopened_by, c.reopened_at, c.reopen_note
from case_closing c where c.case_id = any(%(cases)s::text[]) order by c.proposed_at limit %(limit)s
