-- POST /v1/repairs/{id}/reject.
select repair_reject(%(id)s, %(actor)s, %(note)s)
