-- POST /v1/money_proposals/{id}/approve: durable before anything is sent.
select money_approve(%(id)s, %(actor)s)
