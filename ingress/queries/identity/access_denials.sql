-- Once a second in every process that lets callers in: the time, the version, and all rows when it is not the known one.
-- Primary keys.
select extract(epoch from clock_timestamp())::float8, v.version, d.kind, d.name, extract(epoch from d.issued_before)::float8
from access_denied_version v
left join access_denied d on v.version <> %(known)s and (d.ends_at is null or d.ends_at > clock_timestamp())
