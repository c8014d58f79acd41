-- id: social_threads
-- title: A reply is in the thread of the post that it answers, and every other post is its own root
-- severity: major
-- owner: social
-- source: postgres
select p.post_id as object, p.author_id as detail, p.root_id, p.reply_to
from post p left join post parent on parent.post_id = p.reply_to
where p.root_id <> case when p.reply_to is null then p.post_id else coalesce(parent.root_id, p.root_id) end
