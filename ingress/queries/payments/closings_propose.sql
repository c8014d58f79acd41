-- POST /v1/cases/{id}/closings: one transaction; the case's row lock lets one decision in.
select case_close(%(id)s, %(case)s, %(reason)s, %(note)s, %(author)s, %(hash)s, %(horizon_days)s)
