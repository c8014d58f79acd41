-- POST /v1/cases/{id}/proposals: one transaction; the case's row lock lets one proposal in.
select repair_propose(%(id)s, %(case)s, %(template)s, %(entries)s::jsonb, %(note)s, %(author)s, %(hash)s)
