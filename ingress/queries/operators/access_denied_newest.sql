-- What operators see of the list, newest first; it is bounded (ACCESS_DENIED_MAX). A scan of it.
select kind, name, issued_before, ends_at, reason, denied_by, denied_at
from access_denied
where (%(kind)s::text is null or kind = %(kind)s) and (ends_at is null or ends_at > clock_timestamp())
order by denied_at desc, kind, name
limit %(limit)s
