-- id: social_media_scanned
-- title: No upload waits for its scan for more than five minutes, and none is without a post for more than a day
-- severity: major
-- owner: social_scanner
-- source: postgres
select m.media_id as object, m.scan_state as detail, to_timestamp(m.updated_at / 1e6)::text as since
from media m
where (m.scan_state = 'scanning' and to_timestamp(m.updated_at / 1e6) < now() - interval '5 minutes')
   or (m.attached_post_id is null and m.scan_state in ('initiated', 'scanning', 'ready')
       and to_timestamp(m.created_at / 1e6) < now() - interval '24 hours 10 minutes')
