-- A decision of an operator, audited with it. Primary keys, in the function.
select media_block(%(person)s::text, %(sha256)s::text, %(note)s::text)
