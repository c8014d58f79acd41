-- The console's decision about usage that does not count, audited with it. Primary key.
select usage_refused_decide(%(refused_id)s, %(decision)s, %(person)s, %(note)s)
