-- What operators see of the list, newest first; it is bounded (ACCESS_DENIED_MAX). A scan of it.
select kind, name, reason, denied_by,
    (extract(epoch from issued_before) * 1000000)::bigint as issued_before,
    (extract(epoch from ends_at) * 1000000)::bigint as ends_at,
    (extract(epoch from denied_at) * 1000000)::bigint as denied_at
from access_denied
where (%(kind)s::text is null or kind = %(kind)s) and (ends_at is null or ends_at > clock_timestamp())
order by access_denied.denied_at desc, kind, name
limit %(limit)s
