-- One part of an upload: what was signed of it, whether it may still come, and when that is. Primary keys.
select m.owner_id, m.mime, m.scan_state, p.size, p.sha256, extract(epoch from clock_timestamp())::float8
from media_part p join media m using (media_id)
where p.media_id = %(media_id)s::text and p.number = %(number)s::int
  -- an owner who is suspended or erased puts nothing more, whatever was signed before
  and not exists (select from access_denied d where d.kind = 'user' and d.name = m.owner_id and d.issued_before is null)
  and not exists (select from author a where a.user_id = m.owner_id and a.state in ('deleting', 'deleted'))
