-- The bytes of a part are on disk. Nothing when the upload is not open any more, or its owner was erased. Primary keys.
update media_part p set received_at = coalesce(p.received_at, clock_timestamp())
where p.media_id = %(media_id)s::text and p.number = %(number)s::int
  and exists (select from media m join author a on a.user_id = m.owner_id and a.state not in ('deleting', 'deleted')
              where m.media_id = p.media_id and m.scan_state = 'initiated')
returning p.number
