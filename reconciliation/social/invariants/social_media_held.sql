-- id: social_media_held
-- title: What a user holds of media is counted as it is
-- severity: major
-- owner: social
-- source: postgres
select coalesce(h.user_id, m.owner_id) as object, 'held' as detail, coalesce(h.bytes, 0) as counted, coalesce(m.bytes, 0) as held
from media_held h
full join (select owner_id, sum(size) as bytes from media where scan_state in ('initiated', 'scanning', 'ready') group by owner_id) m
    on m.owner_id = h.user_id
where coalesce(h.bytes, 0) <> coalesce(m.bytes, 0)
