-- POST /v1/cases/{id}/reopen.
select case_reopen(%(case)s, %(actor)s, %(note)s)
