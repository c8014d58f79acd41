-- What was found, newest first. Primary key.
select number, seen_at, probe, evidence, resolved_at, resolved_by, note
from isolation_violation order by number desc limit %(limit)s
