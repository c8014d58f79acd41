-- Contents that are refused wherever they come from, the last first. Served by media_blocked_newest.
select sha256, reason, added_by, added_at from media_blocked order by added_at desc, sha256 desc limit %(limit)s::int
