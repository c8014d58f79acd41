-- POST /v1/money_proposals/{id}/reject.
select money_reject(%(id)s, %(actor)s, %(note)s)
