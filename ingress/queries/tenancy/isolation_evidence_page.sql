-- GET /v1/isolation/evidence: what the monitor found, newest first. Primary key.
select number, (extract(epoch from seen_at) * 1000000)::bigint, probe, evidence,
       (extract(epoch from resolved_at) * 1000000)::bigint, resolved_by, note
from isolation_violation
where (number, '') < (%(created_at)s::bigint, %(id)s::text)
order by number desc limit %(limit)s::int
