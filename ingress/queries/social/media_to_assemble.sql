-- An upload of one's own that is open, and whether a part of it is missing. Primary keys.
select m.media_id, m.parts, m.size, m.sha256,
       exists (select from media_part p where p.media_id = m.media_id and p.received_at is null) as missing
from media m where m.media_id = %(media_id)s::text and m.owner_id = %(user_id)s::text and m.scan_state = 'initiated'
