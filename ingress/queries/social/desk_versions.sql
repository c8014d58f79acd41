-- Which versions of a post a moderator has to judge, newest first, without their texts: those of desk_texts. Primary keys,
-- (object_id, version) of decisions.
select v.version
from post p join author o on o.user_id = p.author_id join post_version v on v.post_id = p.post_id
where p.post_id = %(id)s::text and p.state = 'published' and o.state not in ('deleting', 'deleted')
  and moderation_judges(%(moderator)s::text, p.post_id)
  and (v.version = p.version or v.version in (select d.object_version from moderation_decision d where d.object_id = p.post_id))
order by v.version desc limit %(limit)s::int
