-- An operator switches safe mode on, audited with it. Primary key, in the function.
select isolation_close(%(person)s::text, %(note)s::text)
