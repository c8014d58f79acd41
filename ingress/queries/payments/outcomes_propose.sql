-- POST /v1/cases/{id}/outcomes: one transaction; the case's row lock lets one proposal in.
select attempt_outcome_propose(%(id)s, %(case)s, %(fact)s::jsonb, %(note)s, %(author)s, %(hash)s)
