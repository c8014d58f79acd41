-- A decision of an operator, audited with it. Primary keys, in the function.
select media_retry(%(person)s::text, %(media_id)s::text, %(note)s::text)
