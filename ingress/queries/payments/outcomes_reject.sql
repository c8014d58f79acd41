-- POST /v1/cases/{id}/outcomes/{outcome_id}/reject. Of another case it is not found.
select coalesce((select attempt_outcome_reject(o.id, %(actor)s, %(note)s)
                 from attempt_outcome_proposal o where o.id = %(id)s and o.case_id = %(case)s), 'not_found')
