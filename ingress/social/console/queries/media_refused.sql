-- Media that ended without being served, the last first, and why. Served by media_ended.
select m.media_id, m.owner_id, m.mime, m.size, m.sha256, m.scan_state, to_timestamp(m.updated_at / 1e6) as since,
       coalesce(s.seen, case when exists (select from media_blocked b where b.sha256 = m.sha256) then 'its content is blocked' end) as seen
from (select media_id, owner_id, mime, size, sha256, scan_state, updated_at from media
      where scan_state in ('checksum_failed', 'infected', 'rejected', 'expired', 'deleted')
        and scan_state in ('checksum_failed', 'infected', 'rejected')
      order by updated_at desc limit %(limit)s::int) m
left join media_scan s using (media_id) order by m.updated_at desc
