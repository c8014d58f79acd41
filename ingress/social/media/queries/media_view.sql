-- What may be served of a medium now, and whose it is. Primary keys.
select access_version, is_served, is_public, manifest, owner_id, coalesce(attached_post_id, '')
from media_access where media_id = %(media_id)s::text
