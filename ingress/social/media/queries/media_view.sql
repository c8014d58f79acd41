-- What may be served of a medium now, whose it is, and when that is. Primary keys.
select access_version, is_served, is_public, manifest, owner_id, coalesce(attached_post_id, ''),
       extract(epoch from clock_timestamp())::float8
from media_access where media_id = %(media_id)s::text
