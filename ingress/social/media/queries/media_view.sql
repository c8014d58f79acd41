-- What may be served of a medium now. Primary keys.
select access_version, is_served, is_public, manifest from media_access where media_id = %(media_id)s::text
