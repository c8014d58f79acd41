-- POST /v1/cases/{id}/closings/{closing_id}/approve.
select case_close_approve(%(id)s, %(case)s, %(actor)s, %(horizon_days)s)
