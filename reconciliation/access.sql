-- Denied access, by the role of operators at the shell. Primary keys.

-- name: deny
-- millrace access deny: in one transaction with its row of the audit log.
select access_deny(%(kind)s, %(name)s, %(so_far)s, %(reason)s, %(actor)s, %(rows_max)s, make_interval(secs => %(token_life_s)s));

-- name: lift
-- millrace access lift: the same.
select access_lift(%(kind)s, %(name)s, %(reason)s, %(actor)s);

-- name: listed
-- millrace access list: a scan of a bounded list.
select kind, name, issued_before, ends_at, reason, denied_by, denied_at
from access_denied where ends_at is null or ends_at > clock_timestamp()
order by denied_at desc, kind, name limit %(limit)s;
