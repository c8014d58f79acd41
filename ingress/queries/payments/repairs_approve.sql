-- POST /v1/repairs/{id}/approve: durable before anything is sent.
select repair_approve(%(id)s, %(actor)s)
