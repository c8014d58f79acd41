-- id: social_versions
-- title: Versions of a post are gapless up to its current one, which is as the post says; a tombstone has no text anywhere
-- severity: critical
-- owner: social
-- source: postgres
select p.post_id as object, p.state as detail, p.version, count(v.version) as kept, max(v.version) as newest
from post p left join post_version v on v.post_id = p.post_id
group by p.post_id
having case when p.state = 'deleted' then count(v.version) <> 0 or p.text <> '' or p.media_ids <> '{}'
            else count(v.version) <> p.version or max(v.version) <> p.version
                 or not bool_or(v.version = p.version and v.text = p.text and v.media_ids = p.media_ids
                                and v.visibility = p.visibility) end
