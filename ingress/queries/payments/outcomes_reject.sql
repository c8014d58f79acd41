-- POST /v1/cases/{id}/outcomes/{outcome_id}/reject.
select attempt_outcome_reject(%(id)s, %(actor)s, %(note)s)
