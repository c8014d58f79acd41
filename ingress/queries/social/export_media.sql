-- Media, without URLs: those are in the posts and uploads. Served by media_of_owner.
select media_id, json_build_object('object', 'media', 'media_id', media_id, 'mime', mime, 'bytes', size, 'sha256', sha256,
                                   'scan_state', scan_state, 'post_id', attached_post_id)::text
from media where owner_id = %(user_id)s::text and media_id > %(after)s::text order by media_id limit %(limit)s::int
