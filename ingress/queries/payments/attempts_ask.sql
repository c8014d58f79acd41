-- POST /v1/processor_attempts/{operation_id}/ask.
select attempt_ask(%(operation)s, %(actor)s, %(note)s)
