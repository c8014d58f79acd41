-- Posts with all of their versions. Primary keys.
select p.post_id, json_build_object('object', 'post', 'post_id', p.post_id, 'visibility', p.visibility, 'text', p.text,
                                    'version', p.version, 'media_ids', p.media_ids, 'reply_to', p.reply_to,
                                    'quote_of', p.quote_of, 'created_at_us', p.created_at, 'versions',
                                    (select json_agg(json_build_object('version', v.version, 'text', v.text, 'media_ids',
                                                                       v.media_ids, 'visibility', v.visibility)
                                                     order by v.version)
                                     from post_version v where v.post_id = p.post_id))::text
from post p where p.author_id = %(user_id)s::text and p.state = 'published' and p.post_id > %(after)s::text
order by p.post_id limit %(limit)s::int
