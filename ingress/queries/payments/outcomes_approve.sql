-- POST /v1/cases/{id}/outcomes/{outcome_id}/approve: durable before anything is sent.
select attempt_outcome_approve(%(id)s, %(actor)s)
