-- Whether a post is the viewer's own and deleted. Primary key.
select exists (select from post where post_id = %(id)s::text and author_id = %(viewer)s::text and state = 'deleted')
