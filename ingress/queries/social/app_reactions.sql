-- What a user has done to posts that it is being shown. Primary key.
select post_id, kind from reaction
where post_id = any (%(ids)s::text[]) and kind in ('like', 'repost') and user_id = %(viewer)s::text and state = 'active'
