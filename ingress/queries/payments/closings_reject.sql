-- POST /v1/cases/{id}/closings/{closing_id}/reject.
select case_close_reject(%(id)s, %(case)s, %(actor)s, %(note)s)
