-- id: social_media_uploads
-- title: An upload has all the parts that were declared of it, and was scanned only when it held them all
-- severity: critical
-- owner: social
-- source: postgres
select m.media_id as object, m.scan_state as detail, m.parts, count(p.number) as declared, count(p.received_at) as received
from media m left join media_part p using (media_id)
group by m.media_id
having count(p.number) <> m.parts or sum(p.size) <> m.size
    or (m.scan_state in ('scanning', 'ready', 'infected', 'rejected', 'checksum_failed') and count(p.received_at) <> m.parts)
