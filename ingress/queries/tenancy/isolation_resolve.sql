-- The console's word on a violation, audited with it. Primary key.
select isolation_resolve(%(number)s, %(person)s, %(note)s)
