-- Contents and scans, for the operator at a shell. Each decision is one transaction with its audit row.

-- name: block
-- `millrace media block`. Primary key, in the function.
select media_block(%(person)s, %(about)s, %(note)s);

-- name: lift
-- `millrace media lift`. Primary key, in the function.
select media_unblock(%(person)s, %(about)s, %(note)s);

-- name: retry
-- `millrace media retry`. Primary keys, in the function.
select media_retry(%(person)s, %(about)s, %(note)s);

-- name: blocked
-- `millrace media blocked`: the last first. Served by media_blocked_newest.
select sha256, reason, added_by, added_at from media_blocked order by added_at desc, sha256 desc limit %(limit)s;
