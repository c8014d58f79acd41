-- A person would lift safe mode, or lifts it as the second one; audited with it. Primary keys, in the function.
select isolation_lift(%(person)s::text, %(note)s::text, %(stale_s)s::integer)
