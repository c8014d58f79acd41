-- name: aggregate_version
-- A user is an aggregate of what is its own, and may be named as everywhere else. Primary keys.
select version from post where post_id = %(aggregate_key)s
union all select version from media where media_id = %(aggregate_key)s
union all select version from author where user_id = regexp_replace(%(aggregate_key)s, '^user:', '');
